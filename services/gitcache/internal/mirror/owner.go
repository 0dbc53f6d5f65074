// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/lease"
)

const (
	// ownerMemory is how long the answer to "who owns it" is good for: a burst of calls costs one question.
	ownerMemory = 500 * time.Millisecond
	// ownerTimeout bounds the question, so that reads go on while the lease store hangs.
	ownerTimeout = time.Second
	// spreadDelay is how much later a replica takes a free lease when it owns its share already.
	spreadDelay = 750 * time.Millisecond
)

// owner remembers who owns a repository.
type owner struct {
	mu    sync.Mutex
	url   string
	err   error
	until time.Time
}

// Owner returns the base URL of the replica that owns the repository: this one's own, another's, or "" when nobody owns
// it. It asks the lease store, at most once per half second. An error means that the store does not answer.
func (r *Repository) Owner(ctx context.Context) (string, error) {
	if r.Epoch() != 0 {
		return r.shared.Self, nil
	}
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	if time.Now().Before(r.owner.until) {
		return r.owner.url, r.owner.err
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
		err = fmt.Errorf("%w: %w", ErrDependency, err)
	}
	r.owner.url, r.owner.err, r.owner.until = holder.Owner, err, time.Now().Add(ownerMemory)
	return r.owner.url, r.owner.err
}

// ForgetOwner makes the next Owner ask again: the one it named did not answer.
func (r *Repository) ForgetOwner() {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	r.owner.until = time.Time{}
}

// spread is the lease store as one repository sees it: it lets other replicas go first once this one has its share of the
// repositories. What is being acquired counts as owned, or all would be acquired at once before any is.
type spread struct {
	lease.Store
	repo *Repository
}

// Acquire implements [lease.Store].
func (s spread) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	s.repo.claim(true)
	if s.repo.shared.sated() {
		if _, err := s.Holder(ctx, p.Key); errors.Is(err, lease.ErrNotHeld) {
			if err := backoff.Wait(ctx, spreadDelay); err != nil {
				s.repo.claim(false)
				return lease.Lease{}, err
			}
		}
	}
	l, err := s.Store.Acquire(ctx, p)
	if err != nil {
		s.repo.claim(false)
	}
	return l, err
}

// claim counts the repository among those that this replica owns or is about to, or no longer does.
func (r *Repository) claim(wanted bool) {
	if r.claimed.Swap(wanted) == wanted {
		return
	}
	if wanted {
		r.shared.claims.Add(1)
	} else {
		r.shared.claims.Add(-1)
	}
}

// sated tells whether this replica claims more repositories than an even spread would give it.
func (s *shared) sated() bool {
	live := s.Peers.Live()
	if live < 2 {
		return false
	}
	share := (s.known() + live - 1) / live
	return int(s.claims.Load()) > share
}
