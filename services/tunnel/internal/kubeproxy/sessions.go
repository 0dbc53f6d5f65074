// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"sync"
	"time"
)

// sessions counts the upgraded connections, which the server forgets once they are taken over.
type sessions struct {
	mu     sync.Mutex
	count  int
	nobody chan struct{} // closed when the count falls to zero; nil while nobody waits
}

// begin counts one more. The returned function is called when it is over.
func (s *sessions) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.count--; s.count == 0 && s.nobody != nil {
			close(s.nobody)
			s.nobody = nil
		}
	}
}

// Wait returns when no upgraded connection is left, or ctx ends. The server does not wait for them when it stops. It is
// called once at the most.
func (h *Handler) Wait(ctx context.Context) {
	s := &h.sessions
	s.mu.Lock()
	if s.count == 0 {
		s.mu.Unlock()
		return
	}
	nobody := make(chan struct{})
	s.nobody = nobody
	s.mu.Unlock()
	select {
	case <-nobody:
	case <-ctx.Done():
	}
}

// endAtDrain ends a session some time after the replica begins to drain: unlike a watch, nobody can begin it again where
// it was, so that it may go on as long as possible. The returned function stops the wait.
func (f *forward) endAtDrain(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	ctx, done := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-f.deps.Router.Ending():
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(f.deps.SessionGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errDrained)
		case <-ctx.Done():
		}
	})
	return func() {
		done()
		waiting.Wait()
	}
}
