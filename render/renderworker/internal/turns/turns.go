// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package turns decides when the renders of services run, so that slow ones leave room for others.
//
// A Queue has a fixed number of turns, and gives them to renders in the order in which these ask. A
// render is slow once it has held its turn for the Queue's slowAfter. For slowFor after that, its
// service is known to be slow, and so is every render of it from the beginning.
//
// Slow renders hold all turns but one at most, or the only one. Services that become slow at the same
// time may hold all: as soon as another render waits, one of them is stopped, which then waits for a
// turn again, as a slow one. So with two turns or more, a render of another service waits for slow
// ones at most slowAfter, once for each service that becomes slow in this time.
//
// A Queue has one lock, under which no work is done. It does not bound how long work takes, and not
// how many renders wait.
package turns

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// slowFor is how long a service counts as slow after its last slow render. Content that takes too
// much time is tried again within it, at first.
const slowFor = 10 * time.Minute

// errStopped ends work whose turn another render needs.
var errStopped = errors.New("another service needs the turn")

// Queue hands out turns. Its methods may be called concurrently.
type Queue struct {
	turns     int
	slowAfter time.Duration

	mu      sync.Mutex // guards what follows
	running []*turn    // in the order in which they began
	waiting []*turn    // in the order in which they asked
	// slow has the end of the last slow render of each service. A slow render takes at least
	// slowAfter, which bounds how many there are in slowFor.
	slow map[string]time.Time
}

// turn is one render's, which waits for it or holds it. Its Queue's lock guards its fields.
type turn struct {
	holder

	service string
	begun   chan struct{} // closed when it begins
	began   time.Time
	stop    context.CancelCauseFunc
}

// New returns a Queue of that many turns, at least one. Renders are slow that take slowAfter.
func New(turns int, slowAfter time.Duration) *Queue {
	return &Queue{turns: turns, slowAfter: slowAfter, slow: map[string]time.Time{}}
}

// Do waits for a turn, and then calls work, which must return the cause of its context if that ends.
// Do calls work again, at a later turn, if it was stopped for another service: at most once while the
// service is known to be slow. Empty service: unknown, and not known to be slow later. The error is
// work's, or the cause of ctx if that ended first.
func (q *Queue) Do(ctx context.Context, service string, work func(context.Context) error) error {
	for {
		if err := q.attempt(ctx, service, work); !errors.Is(err, errStopped) {
			return err
		}
	}
}

func (q *Queue) attempt(ctx context.Context, service string, work func(context.Context) error) error {
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := q.enter(service, stop)
	defer q.leave(t)
	select {
	case <-t.begun:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	late := time.AfterFunc(q.slowAfter, func() { q.becomeSlow(t) })
	defer late.Stop()
	return work(within)
}

// enter makes a turn that waits, or has begun already.
func (q *Queue) enter(service string, stop context.CancelCauseFunc) *turn {
	t := &turn{service: service, begun: make(chan struct{}), stop: stop}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, t)
	q.advanceLocked()
	return t
}

// leave ends a turn, whether it has begun or not.
func (q *Queue) leave(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !t.began.IsZero() && time.Since(t.began) >= q.slowAfter {
		q.rememberLocked(t.service)
	}
	isLeaving := func(other *turn) bool { return other == t }
	q.running, q.waiting = slices.DeleteFunc(q.running, isLeaving), slices.DeleteFunc(q.waiting, isLeaving)
	q.advanceLocked()
}

// becomeSlow records that a render has held its turn for slowAfter.
func (q *Queue) becomeSlow(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.isSlow = true
	q.rememberLocked(t.service)
	q.advanceLocked()
}

// rememberLocked records that a render of the service is slow now, and forgets old records.
func (q *Queue) rememberLocked(service string) {
	if service != "" {
		q.slow[service] = time.Now()
	}
	maps.DeleteFunc(q.slow, func(_ string, last time.Time) bool { return time.Since(last) >= slowFor })
}

// isSlowLocked reports whether the service is known to be slow.
func (q *Queue) isSlowLocked(service string) bool {
	last, isKnown := q.slow[service]
	return isKnown && time.Since(last) < slowFor
}

// advanceLocked begins and stops the renders that next selects, until it selects none.
func (q *Queue) advanceLocked() {
	for {
		var holders []holder
		for _, t := range q.running {
			holders = append(holders, t.holder)
		}
		var isSlow []bool
		for _, t := range q.waiting {
			isSlow = append(isSlow, q.isSlowLocked(t.service))
		}
		switch action, i := next(q.turns, holders, isSlow); action {
		case begin:
			t := q.waiting[i]
			q.waiting = slices.Delete(q.waiting, i, i+1)
			q.running = append(q.running, t)
			t.isSlow, t.wasSlow, t.began = isSlow[i], isSlow[i], time.Now()
			close(t.begun)
		case stop:
			q.running[i].isStopped = true
			q.running[i].stop(errStopped)
		case rest:
			return
		}
	}
}
