// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestSecExpressionsLeaveAProcessor checks how many goroutines may evaluate at once, and that
// waiting ones get their turns in the order in which they came.
func TestSecExpressionsLeaveAProcessor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ processors, threads, want int }{
		{1, 1, 1}, {2, 2, 1}, {3, 3, 2}, {16, 16, 15}, // a thread is free
		{1, 3, 1}, {2, 4, 2}, // threads beyond the processors are free
		{64, 2, 1}, {64, 3, 2}, // the container may use fewer processors
	} {
		if got := cap(newTurns(tt.processors, tt.threads)); got != tt.want {
			t.Errorf("%d goroutines evaluate on %d processors with %d threads, want %d", got, tt.processors, tt.threads, tt.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(3, 3)
		var taken []int
		for i := range 5 {
			go func() {
				if err := all.take(t.Context()); err != nil {
					t.Error(err)
				}
				taken = append(taken, i)
			}()
			synctest.Wait()
		}
		if len(taken) != 2 {
			t.Fatalf("%v have a turn, want two", taken)
		}
		for range taken {
			all.end()
			synctest.Wait()
		}
		for i, got := range taken {
			if got != i {
				t.Errorf("turns were given in the order %v", taken)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		refused := errors.New("the caller went away")
		cancel(refused)
		all.end()
		all.end()
		synctest.Wait()
		if len(taken) != 5 {
			t.Fatalf("%v had a turn, want five", taken)
		}
		if err := all.take(t.Context()); err != nil {
			t.Error(err)
		}
		if err := all.take(ctx); !errors.Is(err, refused) {
			t.Errorf("got %v, want the cause of the context's end", err)
		}
	})
}

// TestSecExpressionsWaitForATurn holds all turns of the process. It is not parallel, so no other test
// needs one at the same time.
func TestSecExpressionsWaitForATurn(t *testing.T) {
	e, err := Compile("true", Bool)
	if err != nil {
		t.Fatal(err)
	}
	for range cap(everyones) {
		if err := everyones.take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Holds(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("evaluated without a turn: %v", err)
	}
	compiled := make(chan error)
	go func() {
		_, err := Compile("false", Bool)
		compiled <- err
	}()
	select {
	case err := <-compiled:
		t.Fatalf("compiled without a turn: %v", err)
	default:
	}
	for range cap(everyones) {
		everyones.end()
	}
	if err := <-compiled; err != nil {
		t.Error(err)
	}
	if holds, err := e.Holds(ctx, nil); !holds || err != nil {
		t.Errorf("got %v, %v, want true with a free turn", holds, err)
	}
}
