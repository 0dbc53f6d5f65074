// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/kit/wake"
)

// endAtDrain cancels a request with errDrained, grace after ending is closed. The returned function
// stops it and waits for what it has begun.
func endAtDrain(ctx context.Context, cancel context.CancelCauseFunc, ending <-chan struct{}, grace time.Duration) (stop func()) {
	return wake.AfterClose(ctx, ending, func(ctx context.Context) {
		if backoff.Wait(ctx, grace) == nil {
			cancel(errDrained)
		}
	})
}

// rechecks checks a permission repeatedly, each time an interval after the last answer, and cancels
// the request once it is withdrawn. Between the checks it has no goroutine.
type rechecks struct {
	timers    *timeouts.Queue
	isAllowed func() bool
	cancel    context.CancelCauseFunc

	mu      sync.Mutex
	next    *timeouts.Entry
	stopped bool
}

// start schedules the first check.
func (r *rechecks) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = r.timers.Add(r.check)
}

func (r *rechecks) check() {
	isAllowed := r.isAllowed()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped:
	case isAllowed:
		r.next = r.timers.Add(r.check)
	default:
		r.cancel(errRevoked)
	}
}

func (r *rechecks) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.next.Stop()
}

// sessions counts the upgraded connections, which the server forgets once they are taken over.
type sessions struct {
	mu    sync.Mutex
	count int
	// ended is closed when the count falls to zero. It is nil without a waiter.
	ended chan struct{}
}

// begin counts a connection until the returned function is called.
func (s *sessions) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.count--; s.count == 0 && s.ended != nil {
			close(s.ended)
			s.ended = nil
		}
	}
}

// wait blocks until no connection is left, or ctx ends. It is called at most once.
func (s *sessions) wait(ctx context.Context) {
	s.mu.Lock()
	if s.count == 0 {
		s.mu.Unlock()
		return
	}
	ended := make(chan struct{})
	s.ended = ended
	s.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}
