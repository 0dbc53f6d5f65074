// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package wake lets goroutines wait until something has changed.
//
// A [Signal] wakes the one loop that owns it, a [Broadcast] every goroutine that waits. Neither
// carries the change: a waiter reads the state itself, under the lock of that state, so any number
// of changes cost a slow waiter one look. No change is lost: one that comes after a look wakes the
// next wait.
//
// Setting and notifying never block, and may be done with any lock held.
package wake

import (
	"context"
	"sync"
	"time"
)

// IsClosed reports whether a channel that is only ever closed was closed. Nil was not.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// AfterClose calls do when a channel is closed, unless ctx has ended or stop was called before. The
// context of do ends with ctx and with stop, which waits for a call that has begun.
func AfterClose(ctx context.Context, c <-chan struct{}, do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-c:
			do(ctx)
		case <-ctx.Done():
		}
	})
	return func() {
		cancel()
		waiting.Wait()
	}
}

// Signal wakes one loop. It holds at most one token, so any number of reasons to wake cost one
// round. A loop that waits for several things receives from it directly. Make one with [NewSignal].
type Signal chan struct{}

// NewSignal returns a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set wakes the loop, now or as soon as it waits.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Await blocks until the signal is set or the time is over. The error is the cause of ctx.
func (s Signal) Await(ctx context.Context, wait time.Duration) error { return Await(ctx, s, wait) }

// Await is [Signal.Await] for a loop that may only receive from its signal.
func Await(ctx context.Context, signal <-chan struct{}, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-signal:
	case <-timer.C:
	}
	return nil
}

// Broadcast wakes every goroutine that waits for a change. Its zero value is ready for use. Its
// lock is taken last: no other lock is taken while it is held.
type Broadcast struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change; nil while no goroutine waits for it
}

// Notify wakes all waiting goroutines.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Next returns a channel that is closed at the next change. A caller that takes it before it reads
// the state misses no change.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Await blocks until isDone returns true, and asks it again after every change. The error is the
// cause of ctx.
func (b *Broadcast) Await(ctx context.Context, isDone func() bool) error {
	for {
		changed := b.Next()
		if isDone() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}
