// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flight_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/flight"
)

func TestCallersShareARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group, runs := flight.New[string, int](0), atomic.Int64{}
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				got, err := group.Do(t.Context(), "a", func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return int(runs.Add(1)), nil
				})
				if got != 1 || err != nil {
					t.Errorf("got %d, %v, want the one run's result", got, err)
				}
			})
		}
		callers.Wait()
		if got, _ := group.Do(t.Context(), "b", func(context.Context) (int, error) { return int(runs.Add(1)), nil }); got != 2 {
			t.Errorf("got run %d for another key, want its own", got)
		}
	})
}

func TestARunOutlivesItsFirstCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		gaveUp := errors.New("gave up")
		group := flight.New[string, string](time.Minute)
		ctx, giveUp := context.WithCancelCause(context.WithValue(t.Context(), key{}, "trace"))
		first := group.Start(ctx, "a", func(ctx context.Context) (string, error) {
			time.Sleep(time.Second)
			value, _ := ctx.Value(key{}).(string)
			return value, ctx.Err()
		})
		giveUp(gaveUp)
		if _, err := first.Wait(ctx); !errors.Is(err, gaveUp) {
			t.Errorf("got %v for the caller that gave up, want its cause", err)
		}
		got, err := group.Do(t.Context(), "a", func(context.Context) (string, error) { return "another run", nil })
		if got != "trace" || err != nil {
			t.Errorf("got %q, %v, want the first run's result, with the values of its context", got, err)
		}
	})
}

func TestARunHasALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group, began := flight.New[string, int](time.Minute), time.Now()
		_, err := group.Do(t.Context(), "a", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("got %v after %s, want the end of the limit", err, took)
		}
	})
}

func TestAFailureIsNotRemembered(t *testing.T) {
	t.Parallel()
	group, broken := flight.New[string, int](0), errors.New("broken")
	if _, err := group.Do(t.Context(), "a", func(context.Context) (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the run's error", err)
	}
	if got, err := group.Do(t.Context(), "a", func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
		t.Errorf("got %d, %v, want another run", got, err)
	}
}

func TestARunThatEndsItsGoroutineIsAnError(t *testing.T) {
	t.Parallel()
	group := flight.New[string, int](0)
	if _, err := group.Do(t.Context(), "a", func(context.Context) (int, error) { runtime.Goexit(); return 1, nil }); err == nil {
		t.Error("got no error from a run without a result")
	}
}

func TestARunThatPanicsIsAnError(t *testing.T) {
	t.Parallel()
	group := flight.New[string, int](0)
	if _, err := group.Do(t.Context(), "a", func(context.Context) (int, error) { panic("broken") }); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v, want an error with the reason of the panic", err)
	}
	if got, err := group.Do(t.Context(), "a", func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
		t.Errorf("got %d, %v after a panic, want another run", got, err)
	}
}
