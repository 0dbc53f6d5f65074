// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package slots bounds how many services are worked on at once. It serves the longest waiting
// service first.
package slots

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Slots are a bounded number of rights to work. They are safe for concurrent use.
type Slots struct {
	mu    sync.Mutex
	size  int
	held  map[*slot]struct{}
	queue []chan *slot // each has room for one slot
}

// slot is one right to work.
type slot struct {
	service string
	since   time.Time // when its holder began to work continuously; guarded by Slots.mu
}

// New returns slots for size holders.
func New(size int) *Slots {
	return &Slots{size: size, held: map[*slot]struct{}{}}
}

// Resize changes the number of slots. Held slots stay held.
func (s *Slots) Resize(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
	s.serveLocked()
}

// Oldest returns the service that has continuously held a slot for the longest time, and since
// when. The time is zero if no slot is held.
func (s *Slots) Oldest() (service string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for held := range s.held {
		if since.IsZero() || held.since.Before(since) {
			service, since = held.service, held.since
		}
	}
	return service, since
}

// take blocks until a slot is free, and returns nil if ended is closed before.
func (s *Slots) take(service string, ended <-chan struct{}) *slot {
	s.mu.Lock()
	if len(s.held) < s.size && len(s.queue) == 0 {
		defer s.mu.Unlock()
		return s.holdLocked(service)
	}
	turn := make(chan *slot, 1)
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	select {
	case taken := <-turn:
		s.mu.Lock()
		defer s.mu.Unlock()
		taken.service = service
		return taken
	case <-ended:
		s.abandon(turn)
		return nil
	}
}

// abandon ends the wait for a slot.
func (s *Slots) abandon(turn chan *slot) {
	s.mu.Lock()
	s.queue = slices.DeleteFunc(s.queue, func(c chan *slot) bool { return c == turn })
	s.mu.Unlock()
	select {
	case taken := <-turn: // it arrived at the same moment
		s.release(taken)
	default:
	}
}

func (s *Slots) release(held *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, held)
	s.serveLocked()
}

// renew restarts the holder's time.
func (s *Slots) renew(held *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held.since = time.Now()
}

// serveLocked gives free slots to waiting services.
func (s *Slots) serveLocked() {
	for len(s.queue) > 0 && len(s.held) < s.size {
		s.queue[0] <- s.holdLocked("")
		s.queue = s.queue[1:]
	}
}

func (s *Slots) holdLocked(service string) *slot {
	held := &slot{service: service, since: time.Now()}
	s.held[held] = struct{}{}
	return held
}

// Turn is a run's right to work on the cluster: one slot, for a bounded continuous time. Only the
// goroutine of the run uses it.
type Turn struct {
	slots   *Slots
	service string
	limit   time.Duration
	end     context.CancelCauseFunc // ends the run
	ended   <-chan struct{}         // closed when the run is ended

	held  *slot       // nil: the run has no slot
	alarm *time.Timer // of the held slot
}

// NewTurn returns a turn for a run of a service. The run's context is ctx, which end cancels. The
// turn calls end when the run has continuously held a slot for limit.
func NewTurn(ctx context.Context, end context.CancelCauseFunc, s *Slots, service string, limit time.Duration) *Turn {
	return &Turn{slots: s, service: service, limit: limit, end: end, ended: ctx.Done()}
}

// Take blocks until the run has a slot, and reports false if the run is ended before.
func (t *Turn) Take() bool {
	select {
	case <-t.ended: // even if a slot is free at the same time
		return false
	default:
	}
	if t.held = t.slots.take(t.service, t.ended); t.held == nil {
		return false
	}
	t.alarm = time.AfterFunc(t.limit, func() {
		t.end(fmt.Errorf("not done within %v: %w", t.limit, context.DeadlineExceeded))
	})
	return true
}

// Release frees the slot, if the run has one.
func (t *Turn) Release() {
	if t.held == nil {
		return
	}
	t.alarm.Stop()
	t.slots.release(t.held)
	t.held = nil
}

// Renew restarts the run's time. The run must have a slot.
func (t *Turn) Renew() {
	t.alarm.Reset(t.limit)
	t.slots.renew(t.held)
}
