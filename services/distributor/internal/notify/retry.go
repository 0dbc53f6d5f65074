// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"strings"
	"time"
)

// The pauses of a notifier after failures in a row.
const (
	firstPause = 5 * time.Second
	maxPause   = time.Minute
	// maxAskedPause bounds the pause that a receiver asks for.
	maxAskedPause = time.Hour
)

// RefusedError means that a receiver did not take a message. Other errors of a sink mean that it
// was not reached.
type RefusedError struct {
	// Message is for people, and holds no secret.
	Message string
	// Permanent means that the same message would be refused again.
	Permanent bool
	// RetryAfter is how long the receiver wants to be left alone. Zero: unknown.
	RetryAfter time.Duration
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Verdict is the fate of a message after an attempt.
type Verdict struct {
	Item Item
	At   time.Time
	// Sent means that the receiver took it, and Dead that it is given up. Otherwise it waits until
	// Item.NextAt.
	Sent, Dead bool
	// Pause is how long nothing is sent for the notifier.
	Pause time.Duration
	// Error is why the attempt failed; empty: it did not.
	Error string
}

// Judge decides what becomes of a message after an attempt that ended with err. failures counts the
// attempts for the notifier that failed in a row before this one.
func Judge(item Item, err error, failures int, at time.Time) Verdict {
	v := Verdict{Item: item, At: at}
	if err == nil {
		v.Sent = true
		return v
	}
	text := err.Error()
	v.Error = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	v.Item.LastError = v.Error
	refused, ok := errors.AsType[*RefusedError](err)
	if ok && refused.Permanent || at.Sub(item.CreatedAt) >= giveUpAfter {
		v.Dead = true
		return v
	}
	v.Pause = min(firstPause<<min(failures, 10), maxPause)
	if ok && refused.RetryAfter > v.Pause {
		v.Pause = min(refused.RetryAfter, maxAskedPause)
	}
	v.Item.NextAt = at.Add(v.Pause)
	return v
}
