// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package await has tests wait for what other goroutines and other processes do.
//
// A test that gives an event ten seconds fails on a busy machine, and reveals nothing about the
// code. Tests therefore wait with [Patience], which only a hang exhausts, and fail with the name of
// the event. They do not assert how long something takes: a test of time runs in a testing/synctest
// bubble, or counts events. test/arch refuses other bounds of real time.
//
// All functions may be called in a bubble, where Patience is virtual. They must be called by the
// goroutine of the test, except Context. All but Context may be called in its cleanups, too, whose
// context has ended.
package await

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for an event that must happen. It is far longer than any event
// takes on a busy machine, and shorter than the timeout of go test.
const Patience = 5 * time.Minute

// Conditions often ask a server, and what they wait for may take seconds on the cores that they share
// with it. The pause between two looks at one therefore grows by a quarter with each look.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// Context returns a context that ends after Patience, or when the test ends.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// True blocks until holds returns true. It fails the test if that takes longer than Patience, or if
// another goroutine fails the test meanwhile. what completes the sentence "waited in vain for …".
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Poll(t, what, firstPause, func() (bool, string) { return holds(), "" })
}

// Success blocks until try returns nil, with the failures of True. The failure repeats the last error
// of try. The context of try ends after Patience.
func Success(t testing.TB, what string, try func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()
	Poll(t, what, firstPause, func() (bool, string) {
		if err := try(ctx); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}

// Poll is True for a condition that costs much, with a first pause of its own. look also returns what it
// saw, which the failure repeats.
func Poll(t testing.TB, what string, pause time.Duration, look func() (holds bool, seen string)) {
	t.Helper()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		holds, seen := look()
		switch {
		case holds:
			return
		case t.Failed():
			t.FailNow()
		}
		if seen != "" {
			seen = "; last seen: " + seen
		}
		next.Reset(pause)
		pause = max(pause, min(pause+pause/4, lastPause))
		select {
		case <-next.C:
		case <-patience.C:
			t.Fatalf("waited in vain for %s%s", what, seen)
		}
	}
}

// Value receives a value from a channel. It fails the test after Patience, or if the channel is closed.
func Value[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case value, ok := <-from:
		if !ok {
			t.Fatalf("the channel of %s is closed", what)
		}
		return value
	case <-patience.C:
		t.Fatalf("waited in vain for %s", what)
	}
	panic("unreachable")
}

// Closed blocks until a channel is closed. It fails the test after Patience.
func Closed(t testing.TB, what string, channel <-chan struct{}) {
	t.Helper()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-channel:
	case <-patience.C:
		t.Fatalf("waited in vain for %s", what)
	}
}
