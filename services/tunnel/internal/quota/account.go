// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"sync"
	"sync/atomic"
	"time"
)

// account counts the bytes that one person or one cluster has moved.
type account struct {
	scope  Scope
	limit  int64
	window time.Duration
	slot   time.Duration // a part of the window
	began  time.Time     // when part 0 began
	held   atomic.Int64  // requests that may still add

	mu    sync.Mutex
	bytes [slots + 1]int64 // by part, the number of the part modulo the length
	last  int64            // the newest part that counts
	sum   int64
}

// admit reports whether a new request may begin.
func (a *account) admit(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(now)
	if a.sum < a.limit {
		return nil
	}
	return a.exceeded(now)
}

// add charges n bytes, and returns an *ExceededError once the account is overdrawn.
func (a *account) add(n int64, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(now)
	a.bytes[a.last%int64(len(a.bytes))] += n
	a.sum += n
	if a.sum/2 < a.limit {
		return nil
	}
	return a.exceeded(now)
}

func (a *account) idle(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(now)
	return a.sum == 0
}

// advance forgets the parts that have left the window. The lock is held.
func (a *account) advance(now time.Time) {
	part := int64(now.Sub(a.began) / a.slot)
	for a.last < part {
		if a.sum == 0 {
			a.last = part
			return
		}
		a.last++
		oldest := &a.bytes[a.last%int64(len(a.bytes))] // it has come round
		a.sum -= *oldest
		*oldest = 0
	}
}

// exceeded returns when a new request will be admitted. The lock is held.
func (a *account) exceeded(now time.Time) error {
	left, part := a.sum, a.last-slots
	for ; part < a.last; part++ {
		if part >= 0 {
			left -= a.bytes[part%int64(len(a.bytes))]
		}
		if left < a.limit {
			break
		}
	}
	// A part is forgotten when the one begins that takes its place.
	freed := a.began.Add(time.Duration(part+slots+1) * a.slot)
	return &ExceededError{Scope: a.scope, Limit: a.limit, Window: a.window, RetryAfter: freed.Sub(now)}
}
