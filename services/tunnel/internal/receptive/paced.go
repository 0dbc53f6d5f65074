// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receptive

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/internal/kit/lease"
)

// paced is a store of leases that is asked for them, and given them back, at a bounded rate.
// Renewals pass: their rate is bounded by the leases held. Where there is no time to wait for a
// turn nothing is given back, and the lease expires.
type paced struct {
	lease.Store

	acquires, releases *rate.Limiter
}

func newPaced(store lease.Store) *paced {
	return &paced{Store: store, acquires: rate.NewLimiter(perSecond, 1), releases: rate.NewLimiter(perSecond, 1)}
}

// Acquire implements [lease.Store].
func (p *paced) Acquire(ctx context.Context, a lease.AcquireParams) (lease.Lease, error) {
	if err := p.acquires.Wait(ctx); err != nil {
		return lease.Lease{}, err
	}
	return p.Store.Acquire(ctx, a)
}

// Release implements [lease.Store].
func (p *paced) Release(ctx context.Context, l lease.Lease) error {
	if err := p.releases.Wait(ctx); err != nil {
		return err
	}
	return p.Store.Release(ctx, l)
}
