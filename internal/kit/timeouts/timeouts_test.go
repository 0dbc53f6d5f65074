// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package timeouts_test

import (
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/testkit/offline"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

// TestEachIsCalledInItsTime adds calls at intervals, and stops some of them.
func TestEachIsCalledInItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const after = time.Minute
		queue, began := timeouts.NewQueue(after), time.Now()
		var mu sync.Mutex
		var called []time.Duration
		var want []time.Duration
		for i := range 200 {
			added := time.Since(began)
			entry := queue.Add(func() {
				mu.Lock()
				defer mu.Unlock()
				called = append(called, time.Since(began))
			})
			switch i % 3 {
			case 0:
				want = append(want, added+after)
			case 1:
				if !entry.Stop() || entry.Stop() {
					t.Error("an entry that waits is stopped once")
				}
			case 2: // stopped while others wait behind it
				time.AfterFunc(after/2, func() { entry.Stop() })
			}
			<-time.After(time.Duration(i%7) * 10 * time.Second)
		}
		<-time.After(2 * after)
		synctest.Wait()
		if !slices.Equal(called, want) {
			t.Errorf("got calls at %v, want %v", called, want)
		}
	})
}

// TestStopLosesToTheCall stops an entry whose call has run.
func TestStopLosesToTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := timeouts.NewQueue(time.Second)
		entry := queue.Add(func() {})
		<-time.After(2 * time.Second)
		if entry.Stop() {
			t.Error("an entry that was called could be stopped")
		}
	})
}

func BenchmarkAddAndStop(b *testing.B) {
	queue := timeouts.NewQueue(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		queue.Add(func() {}).Stop()
	}
}

// TestAlignedTimersFireTogether sets timers at many moments of two seconds.
func TestAlignedTimersFireTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const interval = 15 * time.Second
		fired := map[time.Time]int{}
		for range 300 {
			d := timeouts.Align(interval)
			if d < interval || d >= interval+100*time.Millisecond {
				t.Fatalf("Align(%v): got %v", interval, d)
			}
			fired[time.Now().Add(d)]++
			<-time.After(7 * time.Millisecond)
		}
		if len(fired) > 22 {
			t.Errorf("300 timers that were set within 2.1 s fire at %d moments, want at most 22", len(fired))
		}
	})
}
