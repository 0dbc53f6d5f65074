// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// TestF21StormIsSpread has all agents of a dead replica come at once, and again as they are told.
func TestF21StormIsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const agents, perSecond = 5000, 500
		gate, err := NewGate(perSecond)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var mu sync.Mutex
		admitted := map[int]int{} // by second
		var coming sync.WaitGroup
		for i := range agents {
			coming.Go(func() {
				for {
					err := gate.pass(t.Context(), strconv.Itoa(i))
					if err == nil {
						break
					}
					if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_RATE_LIMITED {
						t.Errorf("got %v, want RATE_LIMITED", err)
						return
					}
					delay, ok := rpcerr.RetryDelay(err)
					if !ok || delay <= 0 {
						t.Error("no word when to come again")
						return
					}
					<-time.After(delay)
				}
				mu.Lock()
				defer mu.Unlock()
				admitted[int(time.Since(began)/time.Second)]++
			})
		}
		coming.Wait()
		for second, n := range admitted {
			if limit := perSecond*11/10 + 1; n > limit {
				t.Errorf("second %d: got %d connections, want at most %d", second, n, limit)
			}
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("all were back after %v, want it within three times the %v that the rate needs", took, agents/perSecond*time.Second)
		}
	})
}

func TestGateLetsGoWhoLeaves(t *testing.T) {
	t.Parallel()
	gate, err := NewGate(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.pass(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gate.pass(ctx, "second"); err == nil {
		t.Error("who has left was let in")
	}
}

// TestSecOneAgentTakesNotAllTurns has one cluster's agent connect as often as it can while others
// connect once. The others must not wait, and the number of tracked clusters must stay bounded.
func TestSecOneAgentTakesNotAllTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate, err := NewGate(100)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var coming sync.WaitGroup
		for range 400 { // more than the turns of maxQueue
			coming.Go(func() {
				for ctx.Err() == nil {
					_ = gate.pass(ctx, "hostile")
					<-time.After(100 * time.Millisecond)
				}
			})
		}
		<-time.After(10 * time.Second)
		for i := range 50 {
			coming.Go(func() {
				began := time.Now()
				if err := gate.pass(t.Context(), strconv.Itoa(i)); err != nil || time.Since(began) > time.Second {
					t.Errorf("agent %d: got %v after %v, want a turn within a second", i, err, time.Since(began))
				}
			})
		}
		<-time.After(time.Second)
		cancel()
		coming.Wait()
		for i := range 2 * maxClusters {
			gate.of(strconv.Itoa(i))
		}
		if got := gate.clusters.Len(); got != maxClusters {
			t.Errorf("got %d clusters kept, want %d", got, maxClusters)
		}
	})
}

// TestSecChecksOfOneSourceAreBounded has one source use up its bound with checks that do not end.
func TestSecChecksOfOneSourceAreBounded(t *testing.T) {
	t.Parallel()
	var c checks
	var ends []func()
	for i := range maxChecks {
		end, err := c.begin("[2001:db8::" + strconv.Itoa(i) + "]:1")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if _, err := c.begin("[2001:db8::ffff:1]:2"); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_RATE_LIMITED {
		t.Errorf("one more of the same /64: got %v, want RATE_LIMITED", err)
	}
	for _, other := range []string{"[2001:db8:0:1::1]:1", "192.0.2.1:1", "[::ffff:192.0.2.2]:1", "pipe"} {
		end, err := c.begin(other)
		if err != nil {
			t.Errorf("%s: got %v, want its own bound", other, err)
			continue
		}
		end()
	}
	for _, end := range ends {
		end()
	}
	if len(c.underWay) != 0 {
		t.Errorf("got %d sources kept when nothing is under way, want none", len(c.underWay))
	}
}
