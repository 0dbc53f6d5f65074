// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"errors"
	"sync"

	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/timeouts"
)

// Why the hub ends a request that is running.
var (
	errDrained = errors.New("hub is shutting down")
	errRevoked = errors.New("permission was withdrawn")
	// errAnswered ends what is left of a request whose answer is complete.
	errAnswered = errors.New("request is answered")
	// errCallerGone ends a session whose caller has hung up.
	errCallerGone = errors.New("caller is gone")
	// errUnrecorded ends a session that could not be recorded any further.
	errUnrecorded = errors.New("session cannot be recorded")
	// errIdle ends a session of which one direction has ended and the other one moves no byte.
	errIdle = errors.New("nothing moves on a half-closed connection")
	// errStalled ends a request whose caller takes nothing of the answer.
	errStalled = errors.New("caller takes no byte of the answer")
)

// watchOver ends the request when it must not go on: when the replica drains and the answer has no end of its own, or
// when the permission is withdrawn. The returned function stops it and waits for what it has begun.
func (f *forward) watchOver(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	timer := f.recheckLater(ctx, cancel)
	if !f.target.isEndless() {
		return timer.stop
	}
	ctx, done := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-f.deps.Router.Ending():
			cancel(errDrained)
		case <-ctx.Done():
		}
	})
	return func() {
		done()
		timer.stop()
		watching.Wait()
	}
}

// cutStalled ends the request when its caller takes nothing of the answer for the stall timeout. Until then the caller holds a
// place, and memory, here, at the agent and at the API server. The returned function stops it.
//
// An upgraded connection is not cut: it belongs to the two sides, and somebody may be reading page by page what a command
// in a pod has said.
func (f *forward) cutStalled(cancel context.CancelCauseFunc) (stop func()) {
	guard := serve.GuardStalls(f.w.ResponseWriter, f.deps.StallTimeout, func() { cancel(errStalled) })
	f.w.ResponseWriter = guard
	return guard.Stop
}

// recheck asks again and again, each time an interval after the last answer, without a goroutine in between.
type recheck struct {
	mu      sync.Mutex
	next    *timeouts.Entry
	stopped bool
}

func (r *recheck) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.next.Stop()
}

// unlessStopped does it while nobody stops the rechecks.
func (r *recheck) unlessStopped(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		do()
	}
}

func (f *forward) recheckLater(ctx context.Context, cancel context.CancelCauseFunc) *recheck {
	r := &recheck{}
	var ask func()
	ask = func() {
		if f.stillAllowed(ctx) {
			r.unlessStopped(func() { r.next = f.rechecks.Add(ask) })
			return
		}
		r.unlessStopped(func() { cancel(errRevoked) })
	}
	r.unlessStopped(func() { r.next = f.rechecks.Add(ask) })
	return r
}

// stillAllowed asks for the decision again. Without an answer the old one counts: who decides may be down for longer
// than a decision is kept, and a running request is not what to stop then.
func (f *forward) stillAllowed(ctx context.Context) bool {
	now, err := f.deps.Access.Check(ctx, f.question())
	if err != nil {
		return true
	}
	effective, ok := now.For(f.asks())
	return ok && effective.Covers(f.decision)
}
