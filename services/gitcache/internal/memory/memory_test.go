// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/memory"
)

// TestLargeIsNotStarved lets small ones come for ever: the large one that came before them is served before them.
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

//nolint:paralleltest // the memory limit is the process's
func TestDefault(t *testing.T) {
	write := func(file, text string) string {
		root := t.TempDir()
		path := filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return root
	}
	for name, c := range map[string]struct {
		process int64
		root    string
		want    int64
	}{
		"nothing tells":            {math.MaxInt64, t.TempDir(), 1 << 30},
		"no bound of the group":    {math.MaxInt64, write("memory.max", "max\n"), 1 << 30},
		"version 1 without bound":  {math.MaxInt64, write("memory/memory.limit_in_bytes", "9223372036854771712\n"), 1 << 30},
		"group":                    {math.MaxInt64, write("memory.max", "4294967296\n"), 2 << 30},
		"version 1":                {math.MaxInt64, write("memory/memory.limit_in_bytes", "4294967296\n"), 2 << 30},
		"process":                  {3 << 30, t.TempDir(), 3 << 29},
		"process less than group":  {3 << 30, write("memory.max", "4294967296\n"), 3 << 29},
		"less than is of any use":  {64 << 20, t.TempDir(), 128 << 20},
		"something else in a file": {math.MaxInt64, write("memory.max", "much\n"), 1 << 30},
	} {
		before := debug.SetMemoryLimit(c.process)
		got := memory.Default(c.root)
		debug.SetMemoryLimit(before)
		if got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
