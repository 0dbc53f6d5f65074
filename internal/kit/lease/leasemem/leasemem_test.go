// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package leasemem_test

import (
	"testing"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
	"github.com/leatdev/leat/internal/kit/lease/leasetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(*testing.T) leasetest.Subject {
		return leasetest.Subject{Store: leasemem.New()}
	})
}

func TestEpochFloorAfterForget(t *testing.T) {
	t.Parallel()
	store := leasemem.New()
	params := lease.AcquireParams{Key: "k", Owner: "a", TTL: 1 << 40, MinEpoch: 41}
	store.Forget()
	if l, err := store.Acquire(t.Context(), params); err != nil || l.Epoch != 42 {
		t.Errorf("acquire after forgetting: got %+v, %v, want epoch 42", l, err)
	}
}
