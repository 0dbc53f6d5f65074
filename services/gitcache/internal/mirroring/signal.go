// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"sync"
	"time"
)

// signal wakes one loop. It holds at most one token, so that any number of reasons to wake cost one
// round.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// set wakes the loop, now or as soon as it waits.
func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// await blocks until the signal is set or the time is over. The error is the context's cause.
func (s signal) await(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s:
	case <-timer.C:
	}
	return nil
}

// changes wakes everybody who waits for a change of one repository. Its lock is a leaf: notify may
// be called with any other lock held.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change
}

func newChanges() *changes { return &changes{next: make(chan struct{})} }

// notify wakes all who wait.
func (c *changes) notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// wait returns a channel that is closed at the next change. Whoever takes it before looking at
// anything misses no change: one that comes after the look closes the channel.
func (c *changes) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// await blocks until isDone returns true, and asks it again after every change. The error is the
// context's cause.
func (c *changes) await(ctx context.Context, isDone func() bool) error {
	for {
		changed := c.wait()
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
