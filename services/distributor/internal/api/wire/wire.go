// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire holds the common parts of the distributor's APIs: the messages that more than one
// audience is sent or sends, the errors, and the clock of streams. A function named XMessage
// returns the message of a value, one named XOf the value of a message.
//
// Reports of agents are cut to bounds and corrected, but not refused: the outcome of the services
// is worth more than the defects of the rest of a report.
package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// Each converts each item of a list. It returns nil for an empty list.
func Each[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	all := make([]B, 0, len(list))
	for _, item := range list {
		all = append(all, convert(item))
	}
	return all
}

// first returns the first items of a list, n at most.
func first[A any](list []A, n int) []A { return list[:min(len(list), n)] }

// Duration returns the message of a duration, or nil for zero.
func Duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
