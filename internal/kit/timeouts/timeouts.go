// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeouts keeps many timers cheap.
//
// A [Queue] calls functions after a fixed time, with one timer for all of them. A timer for each
// request costs more than its memory: adding one makes the runtime wake a thread, which may have to
// wait for it. This matters for requests that take a fraction of a millisecond, whose timers hardly
// ever fire.
//
// [Align] makes the timers of many idle connections fire together.
package timeouts

import (
	"sync"
	"time"
)

// Queue calls functions after a fixed time, unless they were stopped before. It is safe for
// concurrent use.
type Queue struct {
	after time.Duration

	mu          sync.Mutex
	first, last *Entry // the waiting entries, ordered by time
	timer       *time.Timer
	armed       bool // the timer runs; it keeps running when no entry waits any more
}

// Entry is one waiting call.
type Entry struct {
	queue      *Queue
	due        time.Time
	call       func()
	prev, next *Entry
	waits      bool
}

// NewQueue returns a queue that delays each call by the given time.
func NewQueue(after time.Duration) *Queue { return &Queue{after: after} }

// After returns how long each call is delayed.
func (q *Queue) After() time.Duration { return q.after }

// Add schedules call, which runs in its own goroutine when the time has passed.
func (q *Queue) Add(call func()) *Entry {
	e := &Entry{queue: q, due: time.Now().Add(q.after), call: call, waits: true}
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.prev = q.last; e.prev != nil {
		e.prev.next = e
	} else {
		q.first = e
	}
	q.last = e
	if !q.armed {
		q.armLocked(q.after)
	}
	return e
}

// Stop cancels the call. It returns false if the call has begun, is about to begin, or was stopped
// before.
func (e *Entry) Stop() bool {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	if !e.waits {
		return false
	}
	e.queue.removeLocked(e)
	return true
}

// removeLocked removes an entry.
func (q *Queue) removeLocked(e *Entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		q.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		q.last = e.prev
	}
	e.prev, e.next, e.waits = nil, nil, false
}

// armLocked starts the timer.
func (q *Queue) armLocked(after time.Duration) {
	q.armed = true
	if q.timer == nil {
		q.timer = time.AfterFunc(after, q.fire)
		return
	}
	q.timer.Reset(after)
}

// fire makes the due calls, and arms the timer for the next entry.
func (q *Queue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	for q.first != nil {
		e := q.first
		if left := time.Until(e.due); left > 0 {
			q.armLocked(left)
			return
		}
		q.removeLocked(e)
		go e.call()
	}
}

// grain is the interval of the moments to which [Align] moves timers.
const grain = 100 * time.Millisecond

// Align returns the given time, or up to 100 ms more, so that timers that are set with it fire
// together. A process that has nothing else to do then wakes ten times a second, however many
// timers it has: to wake costs it more than most of what a timer is for. Linux calls this timer
// slack.
func Align(d time.Duration) time.Duration {
	past := time.Duration(time.Now().Add(d).UnixNano()) % grain
	return d + (grain-past)%grain
}
