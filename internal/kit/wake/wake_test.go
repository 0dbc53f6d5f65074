// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wake_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
)

func TestSignalHoldsOneToken(t *testing.T) {
	t.Parallel()
	s := wake.NewSignal()
	for range 3 {
		s.Set() // never blocks
	}
	<-s
	select {
	case <-s:
		t.Error("got a second token, want one for any number of reasons to wake")
	default:
	}
}

func TestSignalAwait(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	tests := []struct {
		name string
		act  func(s wake.Signal, stop context.CancelCauseFunc)
		took time.Duration
		err  error
	}{
		{name: "set before", act: func(s wake.Signal, _ context.CancelCauseFunc) { s.Set() }},
		{name: "set meanwhile", act: func(s wake.Signal, _ context.CancelCauseFunc) { time.AfterFunc(time.Second, s.Set) }, took: time.Second},
		{name: "never set", act: func(wake.Signal, context.CancelCauseFunc) {}, took: time.Minute},
		{name: "canceled", act: func(_ wake.Signal, stop context.CancelCauseFunc) { stop(stopped) }, err: stopped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				s, began := wake.NewSignal(), time.Now()
				tt.act(s, stop)
				err := s.Await(ctx, time.Minute)
				if took := time.Since(began); took != tt.took || !errors.Is(err, tt.err) {
					t.Errorf("got %v after %s, want %v after %s", err, took, tt.err, tt.took)
				}
			})
		})
	}
}

func TestIsClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	close(closed)
	for _, tt := range []struct {
		name string
		c    chan struct{}
		want bool
	}{
		{name: "nil"},
		{name: "open", c: make(chan struct{})},
		{name: "closed", c: closed, want: true},
	} {
		if got := wake.IsClosed(tt.c); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestAfterClose(t *testing.T) {
	t.Parallel()
	t.Run("stop ends a call that has begun, and waits for it", func(t *testing.T) {
		t.Parallel()
		closed, began := make(chan struct{}), make(chan struct{})
		hasEnded := false
		stop := wake.AfterClose(t.Context(), closed, func(ctx context.Context) {
			close(began)
			<-ctx.Done()
			hasEnded = true
		})
		close(closed)
		<-began
		stop()
		if !hasEnded {
			t.Error("stop returned before the call")
		}
	})
	t.Run("nothing is called after stop", func(t *testing.T) {
		t.Parallel()
		closed := make(chan struct{})
		stop := wake.AfterClose(t.Context(), closed, func(context.Context) { t.Error("called") })
		stop()
		close(closed)
	})
	t.Run("nothing is called after the context", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			closed := make(chan struct{})
			stop := wake.AfterClose(ctx, closed, func(context.Context) { t.Error("called") })
			cancel()
			synctest.Wait()
			close(closed)
			stop()
		})
	})
}

func TestBroadcastWakesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			b      wake.Broadcast
			state  atomic.Int64
			awoken sync.WaitGroup
		)
		b.Notify() // without a waiter it does nothing
		for range 5 {
			awoken.Go(func() {
				if err := b.Await(t.Context(), func() bool { return state.Load() == 2 }); err != nil {
					t.Errorf("await: %v", err)
				}
			})
		}
		for range 2 {
			synctest.Wait()
			state.Add(1)
			b.Notify()
		}
		awoken.Wait()
	})
}

func TestBroadcastMissesNoChange(t *testing.T) {
	t.Parallel()
	var b wake.Broadcast
	changed := b.Next()
	b.Notify() // between the look and the wait
	<-changed
	select {
	case <-b.Next():
		t.Error("the next channel is closed before the next change")
	default:
	}
}

func TestBroadcastAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if err := new(wake.Broadcast).Await(ctx, func() bool { return false }); !errors.Is(err, stopped) {
		t.Errorf("got %v, want the cause", err)
	}
}
