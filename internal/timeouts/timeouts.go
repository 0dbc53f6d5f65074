// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeouts ends what takes too long, with one timer for all that may take equally long.
//
// A timer for each request costs more than its memory: one that is added has the runtime wake a
// thread, which may have to wait for it. For requests that take a fraction of a millisecond that is
// much, and hardly ever does a timer of theirs fire.
package timeouts

import (
	"sync"
	"time"
)

// Queue calls functions after a fixed time, unless they were taken out before. It is safe for
// concurrent use.
type Queue struct {
	after time.Duration

	mu          sync.Mutex
	first, last *Entry // those that wait, in the order of their times
	timer       *time.Timer
	armed       bool // the timer runs; it is left alone when nobody waits any more
}

// Entry is one call that waits.
type Entry struct {
	queue      *Queue
	due        time.Time
	call       func()
	prev, next *Entry
	waits      bool
}

// NewQueue returns a queue in which each call waits so long.
func NewQueue(after time.Duration) *Queue { return &Queue{after: after} }

// After is how long each call waits.
func (q *Queue) After() time.Duration { return q.after }

// Add has call called, in a goroutine of its own, when the time has passed.
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
		q.arm(q.after)
	}
	return e
}

// Stop takes the call out. It reports false when it was called, or is about to be, or was taken out
// before.
func (e *Entry) Stop() bool {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	if !e.waits {
		return false
	}
	e.queue.remove(e)
	return true
}

// remove takes an entry out. The lock is held.
func (q *Queue) remove(e *Entry) {
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

// arm starts the timer. The lock is held.
func (q *Queue) arm(after time.Duration) {
	q.armed = true
	if q.timer == nil {
		q.timer = time.AfterFunc(after, q.fire)
		return
	}
	q.timer.Reset(after)
}

// fire calls what is due, and waits for what comes next.
func (q *Queue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	for q.first != nil {
		e := q.first
		if left := time.Until(e.due); left > 0 {
			q.arm(left)
			return
		}
		q.remove(e)
		go e.call()
	}
}
