// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"
)

// flight lets callers share runs of one function: everybody gets a run that began after they asked, one runs at a time,
// and there is a pause between two. However many ask, what is asked in the end feels one caller.
type flight struct {
	run   func(context.Context) error
	pause time.Duration

	mu sync.Mutex
	// next is the run that has not begun; nil while nobody waits for one.
	next    *turn
	running bool
}

// turn is one run; err is set before done is closed.
type turn struct {
	done chan struct{}
	err  error
}

// Do waits for a run that begins after the call. The error is the run's, or the context's.
func (f *flight) Do(ctx context.Context) error {
	t := f.join(ctx)
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *flight) join(ctx context.Context) *turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &turn{done: make(chan struct{})}
	}
	if !f.running {
		f.running = true
		// Nobody's giving up ends what the others wait for.
		go f.fly(context.WithoutCancel(ctx))
	}
	return f.next
}

// fly runs until nobody waits any more.
func (f *flight) fly(ctx context.Context) {
	for {
		t := f.take()
		if t == nil {
			return
		}
		t.err = f.run(ctx)
		close(t.done)
		<-time.After(f.pause)
	}
}

func (f *flight) take() *turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.next
	f.next, f.running = nil, t != nil
	return t
}
