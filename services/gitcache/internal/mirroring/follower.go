// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/schedule"
)

// followRetry bounds the pause after a copy, or a verification, that failed.
const followRetry = 10 * time.Second

// follower keeps this replica's copy in step with the owner's mirror.
type follower struct {
	shared *shared
	status *status
	owners *ownerLookup
	copier *copier
}

// run copies, as long as this replica is to follow the owner, until ctx is done. It queries the
// owner's mirror after every event, and as often as the owner polls, to learn how fresh the copy
// is.
func (f *follower) run(ctx context.Context) {
	failures := 0
	for {
		wait := backoff.Jitter(f.shared.interval(f.status.definition()), schedule.Spread)
		if failures > 0 {
			wait = min(wait, backoff.Policy{Initial: time.Second, Max: followRetry}.Delay(failures-1))
		}
		if f.status.news.Await(ctx, wait) != nil {
			return
		}
		err := f.followOwner(ctx)
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil && failures == 0 {
			f.shared.logger(f.status).InfoContext(ctx, "mirror not copied, trying again", slog.Any("error", err))
		}
		failures++
	}
}

// followOwner copies what the owner has and this replica lacks, if it is to follow. Nothing to copy
// is no error.
func (f *follower) followOwner(ctx context.Context) error {
	if f.status.epoch() != 0 {
		return nil
	}
	owner, err := f.owners.find(ctx)
	if err != nil || !f.shared.view().ShouldFollow(f.status.placementKey, owner) {
		return err
	}
	return f.copier.catchUp(ctx, owner)
}

// keeps reports whether this replica owns the repository or follows its owner. Where that cannot be
// known, it is not kept.
func (f *follower) keeps(ctx context.Context) bool {
	if f.status.epoch() != 0 {
		return true
	}
	owner, err := f.owners.find(ctx)
	return err == nil && owner != "" && f.shared.view().ShouldFollow(f.status.placementKey, owner)
}

// checkPlacement wakes the follower where this replica may have become one, and has no mirror yet.
func (f *follower) checkPlacement() {
	if f.status.epoch() == 0 && !f.status.holding.read().content.Exists() {
		f.status.news.Set()
	}
}

// borrow copies from the owner, or from any replica where there is none, whether or not this one is
// to follow. The error is mirror.ErrNoMirror where none holds anything.
func (f *follower) borrow(ctx context.Context) error {
	owner, err := f.owners.find(ctx)
	if err != nil {
		return err
	}
	lenders := []string{owner}
	if owner == "" {
		lenders = f.shared.view().Others(f.status.placementKey)
	}
	for _, lender := range lenders {
		if err = f.copier.catchUp(ctx, lender); err == nil {
			break
		}
	}
	if err == nil && !f.status.holding.read().isDelivered() {
		return mirror.ErrNoMirror
	}
	return err
}

// isRedundant reports whether the owner has the repository's mirror, and this replica's copy of it
// is one too many.
func (f *follower) isRedundant(ctx context.Context) bool {
	now := f.status.holding.read()
	if f.status.epoch() != 0 || !now.isDelivered() {
		return false
	}
	owner, err := f.owners.find(ctx)
	if err != nil || owner == "" || f.shared.view().ShouldFollow(f.status.placementKey, owner) {
		return false
	}
	_, err = f.shared.inspect(ctx, owner, f.status.definition(), now.content.Fingerprint())
	return err == nil
}
