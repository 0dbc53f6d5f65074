// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/internal/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// ownerMemory is how long the answer to "who owns it" is good for: a burst of calls costs one question.
	ownerMemory = 500 * time.Millisecond
	// ownerTimeout bounds the question, so that reads go on while the lease store hangs.
	ownerTimeout = time.Second
	// outageMemory is how long a lease store that did not answer is left alone by all repositories, so that reads go on at
	// their usual speed.
	outageMemory = 2 * time.Second
	// turnDelay is how much later than its predecessor in rendezvous order a replica asks for a free lease.
	turnDelay    = 250 * time.Millisecond
	maxTurnDelay = time.Second
	// noMirrorDelay lets replicas that hold a mirror go before those that would have to copy it.
	noMirrorDelay = 1250 * time.Millisecond
)

// owner remembers who owns a repository.
type owner struct {
	mu    sync.Mutex
	url   string
	err   error
	until time.Time
}

// outage remembers that the lease store does not answer.
type outage struct {
	mu    sync.Mutex
	err   error
	until time.Time
}

// check returns what the store failed with lately; nil: ask it. When it is time to try again one caller does, and the others
// go on as before until that one knows.
func (o *outage) check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil && time.Now().After(o.until) {
		o.until = time.Now().Add(ownerTimeout)
		return nil
	}
	return o.err
}

// note takes over how a question ended.
func (o *outage) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.until = err, time.Now().Add(outageMemory)
}

// Owner returns the base URL of the replica that owns the repository: this one's own, another's, or "" when nobody owns
// it. It asks the lease store, at most once per half second, and in an outage one question for all repositories every two. An
// error means that the store does not answer.
func (r *Repository) Owner(ctx context.Context) (string, error) {
	if r.Epoch() != 0 {
		return r.shared.Self, nil
	}
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	if time.Now().Before(r.owner.until) {
		return r.owner.url, r.owner.err
	}
	if err := r.shared.outage.check(); err != nil {
		return "", err
	}
	asking, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	holder, err := r.shared.Leases.Holder(asking, r.uid)
	if errors.Is(err, lease.ErrNotHeld) || holder.Owner == r.shared.Self { // left behind by this replica's earlier life
		holder, err = lease.Holder{}, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", mirror.ErrDependency, err)
	}
	r.shared.outage.note(err)
	r.owner.url, r.owner.err, r.owner.until = holder.Owner, err, time.Now().Add(ownerMemory)
	return r.owner.url, r.owner.err
}

// ForgetOwner makes the next Owner ask again: the one it named did not answer.
func (r *Repository) ForgetOwner() {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	r.owner.until = time.Time{}
}

// Others returns the base URLs of the other live replicas, those first that are most likely to hold a mirror.
func (r *Repository) Others() []string {
	order := rendezvous.Order(r.kin, r.shared.Peers.Members())
	return slices.DeleteFunc(order, func(member string) bool { return member == r.shared.Self })
}

// turn is the lease store as one repository sees it: replicas ask for a free lease one after the other, those with a mirror
// first, each group in rendezvous order. That is courtesy; what keeps them apart is the lease.
type turn struct {
	lease.Store
	repo *Repository
}

// Acquire implements [lease.Store]. While somebody holds the lease one question tells so.
func (t turn) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	if wait := t.repo.courtesy(); wait > 0 && !p.Reclaim {
		holder, err := t.Holder(ctx, p.Key)
		if err == nil {
			return lease.Lease{}, &lease.HeldError{Key: p.Key, Owner: holder.Owner, Epoch: holder.Epoch, Remaining: holder.Remaining}
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

// courtesy is how long this replica lets others take a free lease first.
func (r *Repository) courtesy() time.Duration {
	members := r.shared.Peers.Members()
	if len(members) < 2 || r.summoned.Swap(false) {
		return 0
	}
	wait := min(time.Duration(rendezvous.Rank(r.kin, members, r.shared.Self))*turnDelay, maxTurnDelay)
	if _, err := r.Mirrored(); err != nil {
		wait += noMirrorDelay
	}
	return min(wait, r.shared.Settings.LeaseTTL/3) // a request for a lease has no longer than one lives
}
