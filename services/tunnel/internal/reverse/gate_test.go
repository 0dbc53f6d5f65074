// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/rpcerr"
)

// TestF21StormIsSpread has all agents of a dead replica come at once, and again as they are told.
func TestF21StormIsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const agents, perSecond = 5000, 500
		gate := NewGate(perSecond)
		began := time.Now()
		var mu sync.Mutex
		admitted := map[int]int{} // by second
		var coming sync.WaitGroup
		for range agents {
			coming.Go(func() {
				for {
					err := gate.pass(t.Context())
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
	gate := NewGate(1)
	if err := gate.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gate.pass(ctx); err == nil {
		t.Error("who has left was let in")
	}
}
