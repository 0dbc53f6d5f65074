// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package supervise runs the parts of a program in parallel and stops them one after the other, in
// reverse order.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// stopTimeout is how long one part may take to stop. Services drain for at most a fraction of it.
const stopTimeout = 20 * time.Second

// Failure reports which part failed, why, and where its log is.
type Failure struct {
	Part string
	Log  string // path; empty if there is none
	Err  error
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Part, f.Err) }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// errEnded is the failure of a part that returned without being stopped.
var errEnded = errors.New("it ended unexpectedly")

// Group is a set of running parts. Its methods may be called concurrently, except that nothing may
// be started once Stop was called.
type Group struct {
	failed chan struct{}

	mu    sync.Mutex
	parts []*part
	err   *Failure
}

type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}

	stopping bool // guarded by the group's mu
}

// New returns an empty group.
func New() *Group {
	return &Group{failed: make(chan struct{})}
}

// Go runs a part until Stop: it has the values of ctx but not its end. run must return when its
// context ends. Returning earlier is a failure, with or without an error. log is where the user
// finds details.
func (g *Group) Go(ctx context.Context, name, log string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	g.mu.Lock()
	g.parts = append(g.parts, p)
	g.mu.Unlock()
	go func() {
		defer close(p.done)
		g.ended(p, log, run(ctx))
	}()
}

func (g *Group) ended(p *part, log string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.stopping || g.err != nil {
		return
	}
	if err == nil {
		err = errEnded
	}
	g.err = &Failure{Part: p.name, Log: log, Err: err}
	close(g.failed)
}

// Len returns the number of parts that were started and not stopped.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.parts)
}

// Failed is closed when a part has failed.
func (g *Group) Failed() <-chan struct{} { return g.failed }

// Err returns nil until Failed is closed.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		return nil
	}
	return g.err
}

// Stop ends all parts in reverse order, each after the later ones have ended. The error names the
// parts that did not stop in time.
func (g *Group) Stop() error {
	g.mu.Lock()
	parts := g.parts
	g.parts = nil
	g.mu.Unlock()
	var errs []error
	for _, p := range slices.Backward(parts) {
		g.expect(p)
		p.cancel()
		select {
		case <-p.done:
		case <-time.After(stopTimeout):
			errs = append(errs, fmt.Errorf("%s did not stop within %s", p.name, stopTimeout))
		}
	}
	return errors.Join(errs...)
}

// expect makes the end of a part expected from now on.
func (g *Group) expect(p *part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.stopping = true
}
