// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

func TestWayToAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b := f.start(t, "a"), f.start(t, "b")
		b.connect(t, "demo", "at b")
		synctest.Wait()
		wantAnswer(t, a, "demo", "at b")
		wantAnswer(t, b, "demo", "at b")
		if got := f.store.Calls("Lookup"); got != 1 {
			t.Errorf("got %d look-ups, want 1: the replica that has the connection asks nobody", got)
		}
		if got := a.router.ConnectedUID("demo"); got != "uid" {
			t.Errorf("got uid %q of a cluster elsewhere, want it remembered", got)
		}
		// A newer connection on a third replica is known as soon as it is announced; one here goes
		// first.
		c := f.start(t, "c")
		time.Sleep(time.Second)
		c.connect(t, "demo", "at c")
		time.Sleep(time.Second)
		wantAnswer(t, a, "demo", "at c")
		here, _ := a.connect(t, "demo", "at a")
		wantAnswer(t, a, "demo", "at a")
		a.table.Remove(here)
		wantAnswer(t, a, "demo", "at c")
		if got := f.store.Calls("Lookup"); got != 1 {
			t.Errorf("got %d look-ups, want 1", got)
		}
	})
}

// TestF17AbsentAgentIsLookedUpOnce has 1,000 requests for an agent that is not there, and later one
// that comes back.
func TestF17AbsentAgentIsLookedUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b := f.start(t, "a"), f.start(t, "b")
		synctest.Wait()
		began := time.Now()
		askAll := func(check func(string, error) bool) {
			t.Helper()
			var asking sync.WaitGroup
			for range 1000 {
				asking.Go(func() {
					if from, err := a.ask(t.Context(), http.MethodGet, "demo", ""); !check(from, err) {
						t.Errorf("got %q, %v", from, err)
					}
				})
			}
			asking.Wait()
		}
		askAll(func(_ string, err error) bool { return errors.Is(err, session.ErrOffline) })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the answer took %v, want at most the 2 s that agents have to reconnect", took)
		}
		askAll(func(_ string, err error) bool { return errors.Is(err, session.ErrOffline) }) // remembered
		if got := f.store.Calls("Lookup"); got > 2 {
			t.Errorf("2,000 requests to an absent agent: got %d look-ups, want at most 2", got)
		}
		time.Sleep(2 * time.Second)
		time.AfterFunc(time.Second, func() { b.connect(t, "demo", "back") })
		askAll(func(from string, err error) bool { return err == nil && from == "back" })
		if got := f.store.Calls("Lookup"); got > 4 {
			t.Errorf("with the agent coming back: got %d look-ups in all, want at most 4", got)
		}
	})
}

// TestF18RoutesOfAFlappingAgent connects an agent 1,000 times, here and there. Ends are noticed
// late and out of order, and the store is slow.
func TestF18RoutesOfAFlappingAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.store.Hold = func(_ context.Context, call string) error {
			time.Sleep(rand.N(200 * time.Millisecond))
			if call == "Publish" && rand.IntN(4) == 0 {
				return errors.New("the answer is lost")
			}
			return nil
		}
		a, b := f.start(t, "a"), f.start(t, "b")
		time.Sleep(time.Second)
		var late sync.WaitGroup
		for i := range 1000 {
			r := []*replica{a, b}[rand.IntN(2)]
			s, c := r.connect(t, "demo", fmt.Sprint("old ", i))
			late.Go(func() {
				time.Sleep(rand.N(50 * time.Millisecond))
				_ = c.Close()
				time.Sleep(rand.N(time.Second))
				r.table.Remove(s)
				r.table.Remove(s)
			})
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		b.connect(t, "demo", "newest")
		late.Wait()
		time.Sleep(2 * time.Minute)
		routes, err := f.store.Lookup(t.Context(), "demo")
		if err != nil || len(routes) != 1 || routes[0].Connection != "newest" || routes[0].Replica.ID != "b" {
			t.Errorf("got %v, %v, want one route, to the newest connection", routes, err)
		}
		wantAnswer(t, a, "demo", "newest")
		wantAnswer(t, b, "demo", "newest")
	})
}

// TestF19StoppingReplicaWritesAtABoundedRate has 5,000 agents, which all come, are forgotten by the
// store, and go.
func TestF19StoppingReplicaWritesAtABoundedRate(t *testing.T) {
	const agents, rate = 5000, 40 // calls in a second
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var mu sync.Mutex
		calls, gaps := map[int64]int{}, map[time.Duration]bool{}
		var last time.Time
		f.store.Hold = func(_ context.Context, call string) error {
			mu.Lock()
			defer mu.Unlock()
			if call != "Lookup" && call != "Replicas" {
				calls[time.Now().Unix()]++
				gaps[time.Since(last)] = true
				last = time.Now()
			}
			return nil
		}
		a := f.start(t, "a")
		f.start(t, "b")
		for i := range agents {
			_, c := a.connect(t, fmt.Sprint("cluster-", i), "x")
			c.leave = func(after time.Duration) error {
				time.AfterFunc(after, func() { _ = c.Close() })
				return nil
			}
		}
		time.Sleep(10 * time.Second)
		f.store.Flush()
		time.Sleep(time.Minute)
		if routes, err := f.store.Lookup(t.Context(), fmt.Sprint("cluster-", agents-1)); err != nil || len(routes) != 1 {
			t.Errorf("after a flush: got %v, %v, want the route again", routes, err)
		}
		// Nothing is written for agents that stay, but one sign of life and a refresh now and then.
		before := f.store.Written("Publish")
		time.Sleep(time.Minute)
		if got := f.store.Written("Publish") - before; got > agents {
			t.Errorf("got %d routes written in a minute without changes, want a part of %d", got, agents)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		a.router.Drain(ctx, 10*time.Second, func() {})
		a.stop()
		<-a.ended
		mu.Lock()
		for second, n := range calls {
			if n > rate {
				t.Errorf("second %d: got %d calls, want at most %d", second, n, rate)
			}
		}
		if len(gaps) < 100 {
			t.Errorf("got %d different pauses between writes, want them to vary", len(gaps))
		}
		mu.Unlock()
		if routes, err := f.store.Lookup(t.Context(), "cluster-1"); err != nil || len(routes) != 0 {
			t.Errorf("after the end: got %v, %v, want no route", routes, err)
		}
	})
}

// TestF21AgentsOfAStoppingReplicaSpread asks 5,000 agents to leave, and gives up on the ones that
// stay.
func TestF21AgentsOfAStoppingReplicaSpread(t *testing.T) {
	const agents, move = 5000, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b := f.start(t, "a"), f.start(t, "b")
		time.Sleep(time.Second)
		var mu sync.Mutex
		arrivals := map[int64]int{}
		for i := range agents {
			cluster := fmt.Sprint("cluster-", i)
			_, c := a.connect(t, cluster, "x")
			c.leave = func(after time.Duration) error {
				if i == 0 {
					return nil // stays
				}
				time.AfterFunc(after, func() {
					b.connect(t, cluster, "y")
					mu.Lock()
					defer mu.Unlock()
					arrivals[int64(time.Duration(time.Now().UnixNano())/time.Second)]++
				})
				return nil
			}
		}
		began := time.Now()
		left := time.Duration(0)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		a.router.Drain(ctx, move, func() { left = time.Since(began) })
		if left > move {
			t.Errorf("agents were waited for %v, want at most %v", left, move)
		}
		mu.Lock()
		defer mu.Unlock()
		for second, n := range arrivals {
			if n > 2*agents/int(move/2/time.Second) {
				t.Errorf("second %d: got %d agents, want them spread over %v", second, n, move/2)
			}
		}
		wantAnswer(t, b, fmt.Sprint("cluster-", agents-1), "y")
	})
}

// TestDrainWithoutOtherReplicas does not wait: there is nowhere to go.
func TestDrainWithoutOtherReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFleet().start(t, "a")
		a.connect(t, "demo", "x")
		time.Sleep(time.Second)
		began := time.Now()
		a.router.Drain(t.Context(), 10*time.Second, func() {
			if took := time.Since(began); took > 0 {
				t.Errorf("left after %v, want at once", took)
			}
		})
	})
}

// TestF22StateIsOfOwnAgentsAndLookups has 20,000 agents on another replica, and asks for ten.
func TestF22StateIsOfOwnAgentsAndLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b := f.start(t, "a"), f.start(t, "b")
		time.Sleep(time.Second)
		for i := range 20_000 {
			b.connect(t, fmt.Sprint("cluster-", i), "x")
		}
		time.Sleep(time.Minute)
		for i := range 10 {
			wantAnswer(t, a, fmt.Sprint("cluster-", i), "x")
		}
		if got := a.router.Known(); got != 10 {
			t.Errorf("got routes of %d clusters remembered, want the 10 that were asked for", got)
		}
		for i := range 15_000 {
			wantAnswer(t, a, fmt.Sprint("cluster-", i), "x")
		}
		if got := a.router.Known(); got > 10_000 {
			t.Errorf("got routes of %d clusters remembered, want a bound", got)
		}
	})
}

// TestF24SlowStoreDoesNotConcernLocalAgents has a store that answers after 5 s, or never.
func TestF24SlowStoreDoesNotConcernLocalAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.store.Hold = func(ctx context.Context, _ string) error {
			select {
			case <-time.After(5 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		a := f.start(t, "a")
		a.connect(t, "demo", "here")
		began := time.Now()
		for range 100 {
			wantAnswer(t, a, "demo", "here")
			a.connect(t, "other", "x")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("requests and agents of this replica took %v, want no wait", took)
		}
		for range 10 {
			if _, err := a.ask(t.Context(), http.MethodGet, "absent", ""); !errors.Is(err, relay.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("10 requests for another replica's agent took %v, want one of them to wait for a second", took)
		}
	})
}

// TestKnownRoutesOutliveTheStore continues with known routes when the store has gone.
func TestKnownRoutesOutliveTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var gone atomic.Bool
		f.store.Hold = func(context.Context, string) error {
			if gone.Load() {
				return errors.New("connection refused")
			}
			return nil
		}
		a, b := f.start(t, "a"), f.start(t, "b")
		b.connect(t, "demo", "x")
		time.Sleep(time.Second)
		wantAnswer(t, a, "demo", "x")
		synctest.Wait()
		gone.Store(true)
		for range 10 {
			time.Sleep(time.Minute)
			wantAnswer(t, a, "demo", "x")
		}
	})
}

// TestRequestsMoveOn sends requests to a replica that has lost the agent, or is gone.
func TestRequestsMoveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b, c := f.start(t, "a"), f.start(t, "b"), f.start(t, "c")
		time.Sleep(time.Second)
		c.connect(t, "demo", "at c")
		time.Sleep(time.Second)
		session, lost := b.connect(t, "demo", "at b")
		time.Sleep(time.Second)
		wantAnswer(t, a, "demo", "at b")

		_ = lost.Close() // and the replicas have not noticed
		wantAnswer(t, a, "demo", "at c")
		if got, err := a.ask(t.Context(), http.MethodPost, "demo", "body"); err != nil || got != "at c" {
			t.Errorf("a change that certainly did not arrive: got %q, %v, want it elsewhere", got, err)
		}
		b.table.Remove(session)

		f.kill("c") // with its routes in the store
		time.AfterFunc(time.Second, func() { b.connect(t, "demo", "again") })
		if got, err := a.ask(t.Context(), http.MethodPost, "demo", "body"); err != nil || got != "again" {
			t.Errorf("a change to a replica that is gone: got %q, %v, want it where the agent has reconnected", got, err)
		}
		f.kill("b")
		if _, err := a.ask(t.Context(), http.MethodGet, "demo", ""); err == nil {
			t.Error("got an answer from replicas that are gone")
		}
	})
}
