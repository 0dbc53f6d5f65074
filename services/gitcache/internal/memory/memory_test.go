// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"errors"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/memory"
)

// TestLargeIsNotStarved lets small ones come for ever: the large one that came before them is
// served before them.
func TestLargeIsNotStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(100)
		order := make(chan string, 20)
		work := func(name string, bytes int64, begin, takes time.Duration) {
			time.AfterFunc(begin, func() {
				release, err := b.Acquire(t.Context(), bytes)
				if err != nil {
					t.Error(err)
					return
				}
				order <- name
				time.AfterFunc(takes, release)
			})
		}
		work("small 1", 30, 0, 10*time.Second)
		work("small 2", 30, time.Second, 10*time.Second)
		work("large", 90, 2*time.Second, 10*time.Second)
		work("later", 30, 3*time.Second, 10*time.Second) // would fit at once
		work("later", 30, 4*time.Second, 10*time.Second)
		time.AfterFunc(5*time.Second, func() {
			if _, ok := b.TryAcquire(10); ok {
				t.Error("got what others wait for, want to wait behind them")
			}
		})
		var got []string
		for range 5 {
			got = append(got, <-order)
		}
		want := []string{"small 1", "small 2", "large", "later", "later"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestTooLargeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := memory.NewBudget(100)
	_, err := b.Acquire(t.Context(), 101)
	if large, ok := errors.AsType[*memory.TooLargeError](err); !ok || large.Need != 101 || large.Limit != 100 {
		t.Errorf("got %v, want a refusal with both numbers", err)
	}
	if _, ok := b.TryAcquire(101); ok {
		t.Error("got more than there is")
	}
	release, ok := b.TryAcquire(100)
	if !ok {
		t.Fatal("got nothing of a free budget")
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := b.Acquire(ctx, 1); !errors.Is(err, gone) {
		t.Errorf("got %v, want the context's cause", err)
	}
	release()
	if _, err := b.Acquire(t.Context(), 100); err != nil {
		t.Errorf("got %v after all was given back", err)
	}
}

func TestDefaultIsHalfOfTheLimit(t *testing.T) {
	before := debug.SetMemoryLimit(3 << 30)
	defer debug.SetMemoryLimit(before)
	if got := memory.Default(t.TempDir()); got != 3<<29 {
		t.Errorf("got %d, want half of 3 GiB", got)
	}
}
