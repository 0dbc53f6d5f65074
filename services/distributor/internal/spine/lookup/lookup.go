// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package lookup lets callers that miss something share reads of the store.
//
// Every caller gets the result of a run that began after its call, so it sees whatever was stored
// by then. One run is in progress at a time, with a pause between two. The store therefore feels
// one caller, however many there are.
package lookup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Timeout bounds how long a caller waits for one read of the store.
const Timeout = 2 * time.Second

// errSlowStore is the cause of a context that [Bounded] ended.
var errSlowStore = fmt.Errorf("%w: no answer in time", catalog.ErrUnavailable)

// Bounded returns a context that ends after limit. Its cause then matches catalog.ErrUnavailable.
func Bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errSlowStore)
}

// Flight shares the runs of one function. It is safe for concurrent use. It starts a goroutine for
// as long as a caller waits.
type Flight struct {
	run   func(context.Context) error
	pause time.Duration

	mu sync.Mutex
	// next is the run that has not begun; nil while no caller waits for one.
	next      *result
	isRunning bool
}

// result is the result of one run; err is set before done is closed.
type result struct {
	done chan struct{}
	err  error
}

// NewFlight returns a Flight that waits at least pause between the end of a run and the next one.
func NewFlight(pause time.Duration, run func(context.Context) error) *Flight {
	return &Flight{run: run, pause: pause}
}

// Do blocks until a run that began after the call has ended. It returns the error of the run, or
// the cause of ctx.
func (f *Flight) Do(ctx context.Context) error {
	r := f.join(ctx)
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *Flight) join(ctx context.Context) *result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &result{done: make(chan struct{})}
	}
	if !f.isRunning {
		f.isRunning = true
		// A caller that gives up does not end the run that the others wait for.
		go f.runAll(context.WithoutCancel(ctx))
	}
	return f.next
}

// runAll runs the function until no caller waits.
func (f *Flight) runAll(ctx context.Context) {
	for r := f.begin(); r != nil; r = f.begin() {
		r.err = f.run(ctx)
		close(r.done)
		<-time.After(f.pause)
	}
}

// begin returns the run that callers wait for. Callers that come later wait for the one after it.
func (f *Flight) begin() *result {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.next
	f.next, f.isRunning = nil, r != nil
	return r
}
