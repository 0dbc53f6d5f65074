// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"runtime"
)

// turns bounds how many goroutines compile or evaluate expressions at the same time.
//
// Expressions are the one computation of the product whose amount its users choose. Each of them is
// bounded, but a hub has many of them: the ones of all global services for all clusters, and of all
// edits. If they occupied every thread, a request would wait up to 10 ms, Go's time slice, each
// time that it changes from one goroutine to another. So they leave a thread free where there are
// several, and occupy no more threads than there are processors. Goroutines wait in the order in
// which they came.
type turns chan struct{}

// everyones are the turns of the process.
var everyones = newTurns(runtime.NumCPU(), runtime.GOMAXPROCS(0))

// CountTurns decides again how many goroutines may compile or evaluate expressions at once. It is for main
// functions that have set GOMAXPROCS, before there is an expression.
func CountTurns() { everyones = newTurns(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

// newTurns returns those for a process that runs so many threads at once.
func newTurns(processors, threads int) turns {
	return make(turns, max(1, min(processors, threads-1)))
}

// take blocks until it is the caller's turn. The error is the cause of ctx, if ctx ends before that. An
// ended context does not matter while a turn is free.
// The caller must not take a second turn before it has called end.
func (t turns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end ends the caller's turn.
func (t turns) end() { <-t }
