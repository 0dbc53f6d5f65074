// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/admission"
)

// TestSecSpendingIsBoundedPerHolder: a holder that uses up its time, or crowds, is refused until it
// rested, and another one notices nothing.
func TestSecSpendingIsBoundedPerHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admission.NewSpending(admission.Allowance{AtOnce: 2, Waiting: 1, Burst: 10 * time.Second, Share: 0.25})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin := func(holder string) func() {
			t.Helper()
			end, _, err := s.Begin(ctx, holder)
			if err != nil {
				t.Fatal(err)
			}
			return end
		}
		first, second := begin("eve"), begin("eve")
		waiting := make(chan error, 1)
		go func() {
			end, _, err := s.Begin(ctx, "eve")
			if err == nil {
				end()
			}
			waiting <- err
		}()
		synctest.Wait()
		if _, _, err := s.Begin(ctx, "eve"); !errors.Is(err, admission.ErrCrowded) {
			t.Errorf("got %v with two at work and one that waits", err)
		}
		begin("ada")()

		// Two at once for 7 s take 14 s of the 10, so the one that waited is refused, too.
		time.Sleep(7 * time.Second)
		first()
		second()
		if err := <-waiting; !errors.Is(err, admission.ErrSpent) && err != nil {
			t.Errorf("got %v", err)
		}
		_, wait, err := s.Begin(ctx, "eve")
		if !errors.Is(err, admission.ErrSpent) || wait <= 0 {
			t.Fatalf("got %v, %v after 14 s of work, want a refusal", wait, err)
		}
		begin("ada")()
		time.Sleep(wait)
		begin("eve")()

		// A caller that goes away leaves no place taken.
		one, two := begin("ada"), begin("ada")
		gone, leave := context.WithCancel(ctx)
		leave()
		if _, _, err := s.Begin(gone, "ada"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v of a caller that is gone", err)
		}
		one()
		two()
		begin("ada")()
	})
}
