// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package turns_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/render/renderworker/internal/turns"
)

const slowAfter = 2 * time.Second

// bench renders in a bubble of virtual time, and records what happens.
type bench struct {
	*turns.Queue
	sync.WaitGroup

	mu    sync.Mutex // guards what follows
	now   []string   // services whose work runs
	most  int        // the most of them at once
	begun []string   // services, in the order in which their work began
}

func newBench(count int) *bench { return &bench{Queue: turns.New(count, slowAfter)} }

// render does work of a service that takes that long, and returns how long it waited for the turn of
// which it made use, and how often it began.
func (b *bench) render(ctx context.Context, service string, takes time.Duration) (waited time.Duration, attempts int, err error) {
	asked := time.Now()
	err = b.Do(ctx, service, func(ctx context.Context) error {
		waited, attempts = time.Since(asked), attempts+1
		b.mu.Lock()
		b.now, b.begun = append(b.now, service), append(b.begun, service)
		b.most = max(b.most, len(b.now))
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			i := slices.Index(b.now, service)
			b.now = slices.Delete(b.now, i, i+1)
		}()
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("ended: %w", context.Cause(ctx))
		}
	})
	return waited, attempts, err
}

// start renders in a goroutine.
func (b *bench) start(t *testing.T, service string, takes time.Duration, check func(waited time.Duration, attempts int)) {
	t.Helper()
	b.Go(func() {
		waited, attempts, err := b.render(t.Context(), service, takes)
		if err != nil {
			t.Errorf("%s: %v", service, err)
		}
		check(waited, attempts)
	})
	synctest.Wait() // so that renders ask in the order of the calls
}

func wants(t *testing.T, service string, waited time.Duration, attempts int) func(time.Duration, int) {
	t.Helper()
	return func(gotWaited time.Duration, gotAttempts int) {
		if gotWaited != waited || gotAttempts != attempts {
			t.Errorf("%s: began its last attempt, number %d, after %v, want number %d after %v", service, gotAttempts, gotWaited, attempts, waited)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		turns            int
		holding, waiting string
		want             string
		at               int
	}{
		{2, "", "", "rest", -1},
		{2, "", "h", "begin", 0},
		{2, "", "s", "begin", 0},
		{2, "h", "sh", "begin", 0},
		{2, "hh", "hs", "rest", -1},
		// One turn is left without a slow render.
		{2, "s", "s", "rest", -1},
		{2, "s", "ssh", "begin", 2},
		{2, "n", "sh", "begin", 1},
		{3, "ss", "s", "rest", -1},
		{3, "s", "s", "begin", 0},
		// A stopped one counts until it has ended.
		{2, "x", "s", "rest", -1},
		{2, "x", "h", "begin", 0},
		// The last that became slow makes way, once, and for renders that are not slow.
		{2, "nn", "h", "stop", 1},
		{2, "nn", "sh", "stop", 1},
		{2, "nn", "s", "rest", -1},
		{2, "nn", "", "rest", -1},
		{2, "ns", "h", "stop", 0},
		{2, "nx", "h", "rest", -1},
		{2, "nh", "h", "rest", -1},
		{3, "nsn", "h", "stop", 2},
		{3, "nsh", "h", "rest", -1},
		// The only turn is for all.
		{1, "", "sh", "begin", 0},
		{1, "n", "h", "rest", -1},
		{1, "s", "h", "rest", -1},
	} {
		if got, at := turns.Next(test.turns, test.holding, test.waiting); got != test.want || at != test.at {
			t.Errorf("%d turns, %q hold, %q wait: got %s %d, want %s %d", test.turns, test.holding, test.waiting, got, at, test.want, test.at)
		}
	}
}

// TestInTurn checks the order of renders that are not slow.
func TestInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(2)
		const half = time.Second / 2
		takes := half // only the first: then no two end at the same time
		for i, wait := range []time.Duration{0, 0, half, 2 * half, 3 * half} {
			name := fmt.Sprint(i)
			b.start(t, name, takes, wants(t, name, wait, 1))
			takes = time.Second
		}
		b.Wait()
		if b.most != 2 || strings.Join(b.begun, "") != "01234" {
			t.Errorf("got %d at once, in the order %v, want 2, in the order in which they asked", b.most, b.begun)
		}
	})
}

// TestTwoBecomeSlow has two services become slow at once. The one that began last makes way for a
// third one, and is rendered when the other is ready.
func TestTwoBecomeSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(2)
		b.start(t, "a", 10*time.Second, wants(t, "a", 0, 1))
		b.start(t, "b", 10*time.Second, wants(t, "b", 10*time.Second, 2))
		b.start(t, "quick", time.Second, wants(t, "quick", slowAfter, 1))
		b.Wait()

		// Both are known now: nothing is stopped, and nothing waits for them.
		b.start(t, "a", 10*time.Second, wants(t, "a", 0, 1))
		b.start(t, "b", 10*time.Second, wants(t, "b", 10*time.Second, 1))
		b.start(t, "quick", time.Second, wants(t, "quick", 0, 1))
		b.Wait()

		<-time.After(turns.SlowFor)
		b.start(t, "a", time.Second, wants(t, "a", 0, 1))
		b.start(t, "b", time.Second, wants(t, "b", 0, 1))
		b.Wait()
	})
}

// TestNobodyWaits checks that renders that become slow together continue if no other needs a turn.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(2)
		b.start(t, "a", 10*time.Second, wants(t, "a", 0, 1))
		b.start(t, "b", 10*time.Second, wants(t, "b", 0, 1))
		b.Wait()
	})
}

// TestOneTurn checks that a slow render ends where it holds the only turn.
func TestOneTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(1)
		b.start(t, "slow", 30*time.Second, wants(t, "slow", 0, 1))
		b.start(t, "quick", time.Second, wants(t, "quick", 30*time.Second, 1))
		b.Wait()
	})
}

// TestUnknownService checks that renders without a service do not make each other slow.
func TestUnknownService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(2)
		for range 2 {
			b.start(t, "", 10*time.Second, wants(t, "nobody", 0, 1))
			b.start(t, "", 10*time.Second, wants(t, "nobody", 0, 1))
			b.Wait()
		}
	})
}

// TestContext ends contexts of renders that wait, and that hold a turn.
func TestContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, why := newBench(1), errors.New("there is a newer plan")
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, attempts := range []int{1, 0} {
			b.Go(func() {
				if _, got, err := b.render(ctx, "a", time.Hour); !errors.Is(err, why) || got != attempts {
					t.Errorf("got %d attempts, %v, want %d, %v", got, err, attempts, why)
				}
			})
			synctest.Wait()
		}
		b.start(t, "next", 0, wants(t, "next", time.Second, 1))
		time.AfterFunc(time.Second, func() { cancel(why) })
		b.Wait()
	})
}

// TestSecSlowServicesLeaveATurn renders two services without an end beside 20 others for an hour. No
// other waits for them for longer than it takes to know them, and, after that, not at all.
func TestSecSlowServicesLeaveATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const others, takes, every = 20, 100 * time.Millisecond, 20 * time.Second
		b := newBench(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, hostile := range []string{"hostile-1", "hostile-2"} {
			b.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = b.render(ctx, hostile, 30*time.Second)
				}
			})
		}
		synctest.Wait()
		var mu sync.Mutex
		var waits []time.Duration // after the first
		for i := range others {
			b.Go(func() {
				for first := true; ; first = false {
					waited, _, err := b.render(ctx, fmt.Sprint("other-", i), takes)
					if err != nil {
						return
					}
					if most := slowAfter + others*takes; waited > most {
						t.Errorf("one waited for %v, want %v at most", waited, most)
					}
					mu.Lock()
					if !first {
						waits = append(waits, waited)
					}
					mu.Unlock()
					select {
					case <-time.After(every):
					case <-ctx.Done():
					}
				}
			})
		}
		b.Wait()
		if most, want := slices.Max(waits), others*takes; most > want || len(waits) < 3000 {
			t.Errorf("%d renders waited for %v at most, want that of those before them, %v at most", len(waits), most, want)
		}
		if b.most != 2 {
			t.Errorf("got %d at once, want 2", b.most)
		}
	})
}

// TestAnyLoad renders services of many kinds. All of them end, and none is stopped more than once
// while its service is known to be slow.
func TestAnyLoad(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			count := 1 + random.IntN(4)
			b := newBench(count)
			for i := range 40 {
				service, takes := fmt.Sprint(i%25), time.Duration(random.Int64N(int64(8*time.Second)))
				after := time.Duration(random.Int64N(int64(30 * time.Second)))
				b.Go(func() {
					<-time.After(after)
					if _, attempts, err := b.render(t.Context(), service, takes); err != nil || attempts > 2 {
						t.Errorf("seed %d: got %d attempts, %v, want 2 at most", seed, attempts, err)
					}
				})
			}
			b.Wait()
			if b.most > count {
				t.Errorf("seed %d: got %d at once, want %d at most", seed, b.most, count)
			}
		})
	}
}
