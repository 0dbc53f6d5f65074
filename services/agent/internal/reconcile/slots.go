// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"sync"
	"time"
)

// slots bound how much is worked on at once. Whoever waits longest is next. They are safe for concurrent use.
type slots struct {
	mu    sync.Mutex
	size  int
	held  map[*slot]struct{}
	queue []chan *slot
}

// slot is one right to work.
type slot struct {
	service string
	since   time.Time // when work at a stretch began; guarded by slots.mu
}

func newSlots(size int) *slots {
	return &slots{size: size, held: map[*slot]struct{}{}}
}

// take waits for a slot. It returns nil when ended was closed before there was one.
func (s *slots) take(service string, ended <-chan struct{}) *slot {
	got := &slot{service: service}
	s.mu.Lock()
	if len(s.held) < s.size && len(s.queue) == 0 {
		s.hand(got)
		s.mu.Unlock()
		return got
	}
	turn := make(chan *slot, 1)
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	select {
	case got = <-turn:
		s.mu.Lock()
		defer s.mu.Unlock()
		got.service = service
		return got
	case <-ended:
		s.abandon(turn)
		return nil
	}
}

// abandon gives up waiting.
func (s *slots) abandon(turn chan *slot) {
	s.mu.Lock()
	s.queue = slices.DeleteFunc(s.queue, func(c chan *slot) bool { return c == turn })
	s.mu.Unlock()
	select {
	case got := <-turn: // it came at the same moment
		s.leave(got)
	default:
	}
}

// leave gives a slot back.
func (s *slots) leave(got *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, got)
	s.serve()
}

// renew lets the time at a stretch begin anew.
func (s *slots) renew(got *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got.since = time.Now()
}

// resize changes how many there are. Those that are held stay so.
func (s *slots) resize(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
	s.serve()
}

// serve hands free slots to those who wait. s.mu is held.
func (s *slots) serve() {
	for len(s.queue) > 0 && len(s.held) < s.size {
		got := &slot{}
		s.hand(got)
		s.queue[0] <- got
		s.queue = s.queue[1:]
	}
}

// hand lets a slot's time begin. s.mu is held.
func (s *slots) hand(got *slot) {
	got.since = time.Now()
	s.held[got] = struct{}{}
}

// oldest returns the service that has been worked on the longest at a stretch, and since when. Empty: none is worked on.
func (s *slots) oldest() (service string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for got := range s.held {
		if since.IsZero() || got.since.Before(since) {
			service, since = got.service, got.since
		}
	}
	return service, since
}
