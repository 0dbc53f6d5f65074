// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// ownerMemory is how long the answer to "who owns it" is good for: a burst of calls costs one
// question.
const ownerMemory = 500 * time.Millisecond

// ownerLookup finds out who owns a repository, and remembers it for a moment.
type ownerLookup struct {
	shared *shared
	status *status

	mu    sync.Mutex // held while the store is asked, so that one question answers a burst
	url   string
	err   error
	until time.Time
}

// find returns the name of the owner: this replica, another one, or "" if the repository has no
// owner. An error means that the lease store does not answer, or is the context's.
func (o *ownerLookup) find(ctx context.Context) (string, error) {
	if o.status.epoch() != 0 {
		return o.shared.Self, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return o.url, o.err
	}
	if err := o.shared.outage.check(); err != nil {
		return "", err
	}
	asking, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	holder, err := o.shared.Leases.Holder(asking, o.status.uid)
	if errors.Is(err, lease.ErrNotHeld) || holder.Owner == o.shared.Self { // left behind by this replica's earlier life
		holder, err = lease.Holder{}, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", mirror.ErrDependency, err)
	}
	o.shared.outage.record(err)
	o.url, o.err, o.until = holder.Owner, err, time.Now().Add(ownerMemory)
	return o.url, o.err
}

// forget makes the next find ask again.
func (o *ownerLookup) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Time{}
}
