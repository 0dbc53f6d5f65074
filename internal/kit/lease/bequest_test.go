// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
)

// TestHoldHandsOver ends a tenure with a bequest while two others wait: the heir gets the lease as
// soon as it is woken, and the other one, which would have asked earlier, does not.
func TestHoldHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leasemem.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		errDone := errors.New("handed over")
		given := make(chan struct{})
		go func() {
			err := lease.Hold(ctx, waiting(store, "old", nil), func(_ context.Context, held *lease.Held) error {
				time.Sleep(10 * time.Second)
				held.Bequeath("heir", 5*time.Second)
				return errDone
			})
			if !errors.Is(err, errDone) {
				t.Errorf("got %v, want what work returned", err)
			}
			close(given)
		}()
		synctest.Wait()
		winners := make(chan string, 2)
		wait := func(ctx context.Context, _ *lease.Held) error { <-ctx.Done(); return nil }
		wake := make(chan struct{}, 1)
		for name, wake := range map[string]chan struct{}{"heir": wake, "other": nil} {
			go func() {
				_ = lease.Hold(ctx, waiting(store, name, wake), func(ctx context.Context, held *lease.Held) error {
					winners <- name
					return wait(ctx, held)
				})
			}()
		}
		<-given
		released := time.Now()
		wake <- struct{}{}
		if got := <-winners; got != "heir" || time.Since(released) > 0 {
			t.Errorf("got the lease for %s after %s, want the heir at once", got, time.Since(released))
		}
		cancel()
		synctest.Wait()
	})
}

func waiting(store lease.Store, owner string, wake <-chan struct{}) lease.KeeperParams {
	return lease.KeeperParams{Store: store, Key: "k", Owner: owner, TTL: 15 * time.Second, Wake: wake}
}
