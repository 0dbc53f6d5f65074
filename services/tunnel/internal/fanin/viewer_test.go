// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
)

func TestEachViewerHasItsOwnTimeout(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		short := watch(t, relay, s, anyState+"&timeoutSeconds=10")
		long := watch(t, relay, s, anyState+"&timeoutSeconds=600")
		<-time.After(9 * time.Second)
		short.wantEnd(nil)
		<-time.After(2 * time.Second)
		short.wantEnd(io.EOF)
		s.touch("a")
		long.want(s.last().all())
		long.wantEnd(nil)
		s.wantWatches(t, 1, 1)
		short.leave()
		long.leave()
		<-time.After(6 * time.Second)
	})
}

func TestReloadedPageFindsItsWatch(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{Linger: 5 * time.Second})
		other := watch(t, relay, s, anyState) // a watch with only one viewer ends with that viewer
		for range 3 {
			v := watch(t, relay, s, anyState)
			other.leave()
			v.leave()
			<-time.After(4 * time.Second)
			s.wantWatches(t, 1, 1)
		}
		<-time.After(2 * time.Second)
		s.wantWatches(t, 1, 0)
		v := watch(t, relay, s, anyState)
		s.wantWatches(t, 2, 1)
		relay.Drain()
		v.leave()
		s.wantWatches(t, 2, 0)
	})
}

// TestSecSomebodyPaysForEveryWatch compares the charges with the watches of the cluster. Some
// person is charged for every watch, and when all watches have ended, no charge is left.
func TestSecSomebodyPaysForEveryWatch(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{Linger: 5 * time.Second})
		s.touch("a")
		charged := map[string]int{}
		var mu sync.Mutex
		view := func(person string) (leave func()) {
			t.Helper()
			mu.Lock()
			charged[person]++
			mu.Unlock()
			ctx, cancel := context.WithCancel(context.Background())
			w := relay.Watch("demo", s.open, func() {
				mu.Lock()
				defer mu.Unlock()
				charged[person]--
			})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, anyState, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := w.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				cancel()
				_ = res.Body.Close()
				w.Release()
				w.Release() // the second call does nothing
				synctest.Wait()
			}
		}
		want := func(when string, ada, bob, watches int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if charged["ada"] != ada || charged["bob"] != bob {
				t.Errorf("%s: got %v charged, want ada %d and bob %d", when, charged, ada, bob)
			}
			if got := relay.Stats().Upstreams; got != watches {
				t.Errorf("%s: got %d watches, want %d", when, got, watches)
			}
		}
		ada := view("ada")
		want("one viewer", 1, 0, 1)
		ada()
		want("a watch of one viewer is left", 0, 0, 0)

		ada, bob := view("ada"), view("bob")
		want("two viewers", 1, 1, 1)
		ada() // ada has begun the watch
		want("the first one has left", 0, 1, 1)
		bob()
		want("the last one has left", 0, 1, 1)
		ada = view("ada")
		want("somebody has come again", 1, 0, 1)
		ada()
		want("and has left", 1, 0, 1)
		<-time.After(6 * time.Second)
		synctest.Wait()
		want("the watch has ended", 0, 0, 0)
	})
}

func TestDrainEndsWhatNobodyWatches(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{Linger: time.Hour})
		first, second := watch(t, relay, s, anyState), watch(t, relay, s, anyState)
		first.leave()
		second.leave()
		watched := watch(t, relay, s, from(7))
		s.wantWatches(t, 2, 2)
		relay.Drain()
		s.wantWatches(t, 2, 1)
		watched.wantEnd(nil)
		watched.leave()
		s.wantWatches(t, 2, 0)
	})
}

func TestAllViewersEndAsTheClusterEnds(t *testing.T) {
	for name, end := range map[string]error{"well": io.EOF, "badly": errBroken} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) {
				s, relay := newServer(), fanin.New(fanin.Params{})
				s.touch("a")
				first, second := watch(t, relay, s, anyState), watch(t, relay, s, anyState)
				stalled, err := ask(t, relay, s, anyState, nil)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				s.endAll(end)
				first.wantEnd(end)
				second.wantEnd(end)
				go stalled.readAll() // reads what was there before
				stalled.want(s.last().all())
				stalled.wantEnd(end)
				again := watch(t, relay, s, anyState)
				s.wantWatches(t, 2, 1)
				relay.Drain()
				for _, v := range []*viewer{first, second, stalled, again} {
					v.leave()
				}
			})
		})
	}
}

func TestCallerWhoLeavesEarly(t *testing.T) {
	run(t, func(t *testing.T) {
		opened := make(chan error, 1)
		relay := fanin.New(fanin.Params{})
		w := relay.Watch("demo", func(ctx context.Context) (fanin.Upstream, error) {
			<-ctx.Done()
			opened <- ctx.Err()
			return nil, ctx.Err()
		}, func() {})
		defer w.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, anyState, nil)
		if _, err := w.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		if err := <-opened; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the request to end with its only caller", err)
		}
	})
}

// TestViewerWhoLeavesWhileItWaits has a viewer wait for the answer to another one, and give up.
// Neither the watch nor a charge is left of it.
func TestViewerWhoLeavesWhileItWaits(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		version := s.touch("a")
		s.gate = make(chan struct{})
		opener := make(chan *viewer)
		go func() { opener <- watch(t, relay, s, from(version)) }()
		synctest.Wait()
		charges := 1
		w := relay.Watch("demo", s.open, func() { charges-- })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, from(version+1), nil)
		req.Header.Set("Impersonate-User", "ada")
		if _, err := w.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		w.Release()
		if charges != 0 {
			t.Error("the viewer is still charged for a watch that it does not have")
		}
		close(s.gate)
		first := <-opener
		s.wantWatches(t, 1, 1)
		first.leave()
		s.wantWatches(t, 1, 0)
	})
}
