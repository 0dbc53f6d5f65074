// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package flight shares one run of a function among all callers that want the same result.
//
// A run belongs to none of its callers. It carries the values of the first caller's context, its
// trace among them, but does not end with it: a caller that gives up stops waiting, and the others
// get the result. Instead a run has a time limit of its own.
//
// A key is free while no run of it is under way. The first caller takes it and begins a run, and
// later callers join. The key is free again before the first caller gets the result, so a caller
// that comes after a failure begins another run. Nothing is remembered.
//
// A run that panics is an error of its callers, as a handler that panics is of its caller. Otherwise
// one input could end the process.
package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// errNoResult is the outcome of a run that ended its goroutine instead of returning.
var errNoResult = errors.New("shared run ended without a result")

// Group holds the runs that are under way. It is safe for concurrent use. Its lock is taken last:
// no run happens with it held.
type Group[K comparable, V any] struct {
	limit time.Duration

	mu   sync.Mutex
	runs map[K]*Run[V]
}

// New returns a Group whose runs may take as long as limit. Zero: they bound themselves.
func New[K comparable, V any](limit time.Duration) *Group[K, V] {
	return &Group[K, V]{limit: limit, runs: map[K]*Run[V]{}}
}

// Do blocks until the run of key has ended, and returns its result. It begins one by calling do if
// there is none. The error is the run's, or the cause of ctx if that ended first.
func (g *Group[K, V]) Do(ctx context.Context, key K, do func(context.Context) (V, error)) (V, error) {
	return g.Start(ctx, key, do).Wait(ctx)
}

// Start is Do without the waiting: it never blocks.
func (g *Group[K, V]) Start(ctx context.Context, key K, do func(context.Context) (V, error)) *Run[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	run, isRunning := g.runs[key]
	if !isRunning {
		run = &Run[V]{done: make(chan struct{}), err: errNoResult}
		g.runs[key] = run
		go g.fly(context.WithoutCancel(ctx), key, run, do)
	}
	return run
}

func (g *Group[K, V]) fly(ctx context.Context, key K, run *Run[V], do func(context.Context) (V, error)) {
	defer close(run.done)
	defer func() {
		if reason := recover(); reason != nil {
			run.err = fmt.Errorf("%w: panic: %v\n%s", errNoResult, reason, debug.Stack())
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.runs, key)
	}()
	if g.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.limit)
		defer cancel()
	}
	run.value, run.err = do(ctx)
}

// Run is one run of a function. Its result is written before done is closed, and only read after.
type Run[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// Wait blocks until the run has ended, and returns its result. The error is the run's, or the cause
// of ctx if that ended first.
func (r *Run[V]) Wait(ctx context.Context) (V, error) {
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}
