// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package await_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
)

// double records how a test failed. Its goroutine ends there, as a test's does.
type double struct {
	testing.TB

	ctx    context.Context
	failed bool
	text   string
}

func (d *double) Helper()                  {}
func (d *double) Cleanup(f func())         { d.TB.Cleanup(f) }
func (d *double) Context() context.Context { return d.ctx }
func (d *double) Failed() bool             { return d.failed }
func (d *double) FailNow()                 { d.failed = true; runtime.Goexit() }
func (d *double) Fatalf(format string, args ...any) {
	d.text = fmt.Sprintf(format, args...)
	d.FailNow()
}

// run runs a test that may fail, and returns how it failed and after how long.
func run(t *testing.T, test func(d *double)) (failure string, took time.Duration) {
	t.Helper()
	d := &double{TB: t, ctx: t.Context()}
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		test(d)
	}()
	<-ended
	if d.failed && d.text == "" {
		d.text = "failed before"
	}
	return d.text, time.Since(began)
}

func TestWaits(t *testing.T) {
	t.Parallel()
	const patience = await.Patience
	never := func() chan struct{} { return make(chan struct{}) } // of the bubble
	tests := map[string]struct {
		test func(d *double)
		want string
		took time.Duration
	}{
		"true at once": {func(d *double) { await.True(d, "it", func() bool { return true }) }, "", 0},
		"true later": {func(d *double) {
			began := time.Now()
			await.True(d, "it", func() bool { return time.Since(began) >= time.Minute })
		}, "", time.Minute},
		"never true":     {func(d *double) { await.True(d, "it", func() bool { return false }) }, "waited in vain for it", patience},
		"failed already": {func(d *double) { d.failed = true; await.True(d, "it", func() bool { return false }) }, "failed before", 0},
		"no success": {func(d *double) {
			await.Success(d, "it", func(context.Context) error { return errors.New("broken") })
		}, "waited in vain for it; last seen: broken", patience},
		"success in a cleanup": {func(d *double) {
			ctx, cancel := context.WithCancel(d.ctx)
			cancel()
			d.ctx = ctx
			began := time.Now()
			await.Success(d, "it", func(ctx context.Context) error {
				if ctx.Err() == nil && time.Since(began) < time.Minute {
					return errors.New("not yet")
				}
				return ctx.Err()
			})
		}, "", time.Minute},
		"success that blocks": {func(d *double) {
			await.Success(d, "it", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		}, "waited in vain for it; last seen: context deadline exceeded", patience},
		"a value": {func(d *double) {
			values := make(chan int, 1)
			values <- 7
			if got := await.Value(d, "it", values); got != 7 {
				d.Fatalf("got %d, want 7", got)
			}
		}, "", 0},
		"no value":    {func(d *double) { await.Value(d, "it", never()) }, "waited in vain for it", patience},
		"never again": {func(d *double) { closed := make(chan int); close(closed); await.Value(d, "it", closed) }, "the channel of it is closed", 0},
		"closed":      {func(d *double) { closed := make(chan struct{}); close(closed); await.Closed(d, "it", closed) }, "", 0},
		"not closed":  {func(d *double) { await.Closed(d, "it", never()) }, "waited in vain for it", patience},
		"context": {func(d *double) {
			<-await.Context(d).Done()
		}, "", patience},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, took := run(t, test.test)
				if !strings.HasPrefix(got, test.want) || (test.want == "") != (got == "") {
					t.Errorf("got failure %q, want %q", got, test.want)
				}
				if took.Round(time.Second) != test.took { // pauses may be as long as a tenth of a second
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}
