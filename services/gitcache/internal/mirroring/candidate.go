// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// restWait is the pause after a tenure that ended on its own, as when a newer epoch was seen.
	restWait = time.Second
	// noticeTimeout bounds how long a successor has to announce that it has taken over.
	noticeTimeout = 2 * time.Second
)

// candidate competes for the lease of a repository, and gives it up in favour of a successor.
type candidate struct {
	shared *shared
	status *status
	owners *ownerLookup
	copier *copier
	tasks  *ownerTasks
	tenure tenure // without what belongs to one lease

	wake       wake.Signal // the lease is worth asking for at once
	isInvited  atomic.Bool // another replica has left the lease to this one
	skipsDelay atomic.Bool // the next request for the lease need not let others ask first
	successor  string      // is left the lease at the shutdown; only the goroutine of run uses it
}

// run competes for the lease until ctx is done, and holds a tenure whenever it has it.
func (c *candidate) run(ctx context.Context) {
	logger := c.shared.logger(c.status)
	for ctx.Err() == nil {
		err := lease.Hold(ctx, lease.KeeperParams{
			Store: turnStore{Store: c.shared.Leases, candidate: c}, Key: c.status.uid, Owner: c.shared.Self,
			TTL: c.shared.Settings.LeaseTTL, RenewEvery: c.shared.Settings.LeaseRenew,
			MinEpoch: c.status.holding.read().content.Epoch, Wake: c.wake, Logger: c.shared.Logger,
		}, c.own)
		if left, ok := errors.AsType[*handedOver](err); ok {
			left.offer.done <- c.requestTakeOver(ctx, left.offer.successor)
			continue
		}
		if ctx.Err() != nil {
			if c.successor != "" { // the lease is released already
				if err := c.requestTakeOver(context.WithoutCancel(ctx), c.successor); err != nil {
					logger.DebugContext(ctx, "successor not notified", slog.Any("error", err))
				}
			}
			return
		}
		if err != nil {
			logger.WarnContext(ctx, "ownership ended", slog.Any("error", err))
			_ = backoff.Wait(ctx, restWait) // the loop checks ctx
		}
	}
}

// own holds one tenure, until it ends. Other replicas may take the lease only when it has returned,
// so it ends everything that is for the owner.
func (c *candidate) own(ctx context.Context, held *lease.Held) error {
	c.status.fetching.change(func(s *fetchState) { s.own(held.Epoch(), time.Now()) })
	c.copier.stop() // second: see copier
	cause := "vacant"
	if c.isInvited.Swap(false) {
		cause = "handover"
	}
	c.shared.metrics.leaseChanged(ctx, "won", cause)
	defer c.status.fetching.change((*fetchState).resign)
	defer c.tasks.open(ctx, held)()
	t := c.tenure
	t.held, t.outbox = held, &outbox{shared: c.shared, status: c.status, held: held}
	err := t.run(ctx)
	change, cause := lossOf(err, held.Check())
	c.shared.metrics.leaseChanged(ctx, change, cause)
	if ctx.Err() != nil && held.Check() == nil {
		c.leaveToSuccessor(held)
	}
	return err
}

// lossOf names how and why a tenure ended that returned err, with the result of reading the lease.
func lossOf(err, lost error) (change, cause string) {
	_, isHandedOver := errors.AsType[*handedOver](err)
	switch {
	case lost != nil:
		return "lost", "not_renewed"
	case isHandedOver:
		return "given", "handover"
	case errors.Is(err, mirror.ErrEpochStale):
		return "lost", "epoch_stale"
	default:
		return "given", "stopped"
	}
}

// leaveToSuccessor reserves the lease for the next replica in the order: this one is shutting down.
func (c *candidate) leaveToSuccessor(held *lease.Held) {
	if others := c.shared.view().Others(c.status.placementKey); len(others) > 0 {
		c.successor = others[0]
		held.Bequeath(c.successor, reservation)
	}
}

// requestTakeOver tells a replica that the lease is free for it, and waits until it has taken it.
func (c *candidate) requestTakeOver(ctx context.Context, successor string) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	if err := c.shared.notices.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer c.shared.notices.Release(1)
	defer c.owners.forget()
	return c.shared.Replicas.TakeOver(ctx, successor, c.status.definition())
}

// takeOver takes a lease that was given up in this replica's favour; see [Repository.TakeOver].
func (c *candidate) takeOver(ctx context.Context) (epoch uint64, err error) {
	waiting, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	c.isInvited.Store(true)
	c.skipsDelay.Store(true)
	c.wake.Set()
	err = c.status.changes.Await(waiting, func() bool {
		epoch = c.status.epoch()
		return epoch != 0
	})
	if err != nil {
		return 0, fmt.Errorf("take %q over: %w", c.status.name, mirror.ErrNotOwner)
	}
	return epoch, nil
}

// turnStore is the lease store as one candidate sees it: replicas ask for a free lease one after
// the other, in the order that the placement gives them.
type turnStore struct {
	lease.Store
	candidate *candidate
}

// Acquire implements [lease.Store]. While another replica holds the lease, one question finds that
// out, and callers do not wait.
func (t turnStore) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	if wait := t.candidate.acquireDelay(); wait > 0 && !p.Reclaim {
		holder, err := t.Holder(ctx, p.Key)
		if err == nil {
			return lease.Lease{}, &lease.HeldError{
				Key: p.Key, Owner: holder.Owner, Epoch: holder.Epoch, Remaining: holder.Remaining,
			}
		}
		if !errors.Is(err, lease.ErrNotHeld) {
			return lease.Lease{}, err
		}
		if err := backoff.Wait(ctx, wait); err != nil {
			return lease.Lease{}, err
		}
	}
	return t.Store.Acquire(ctx, p)
}

// acquireDelay returns how long this replica lets others take a free lease first. A request for a
// lease has no longer than a lease lives.
func (c *candidate) acquireDelay() time.Duration {
	view := c.shared.view()
	if len(view.Members) > 1 && c.skipsDelay.Swap(false) {
		return 0
	}
	return view.AcquireDelay(c.status.placementKey, c.status.holding.read().content.Exists(), c.shared.Settings.LeaseTTL/3)
}
