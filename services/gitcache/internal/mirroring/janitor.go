// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	janitorEvery  = time.Minute
	janitorSpread = 0.25
	// undefinedGrace is how long a mirror without a definition stays: definitions that got lost are
	// put back sooner.
	undefinedGrace = 10 * time.Minute
	// highWater is the share of the disk from which copies that are not needed go.
	highWater = 0.9
	// compactRetry is the pause after a compaction that failed.
	compactRetry = time.Hour
)

// janitor keeps the folder of mirrors within its bounds.
type janitor struct {
	shared *shared
	list   func() []*Repository
}

// makeRoom removes undefined mirrors and unneeded copies, until ctx is done. It looks now and then,
// and at once when a fetch found the disk full.
func (j *janitor) makeRoom(ctx context.Context) {
	undefinedSince := map[string]time.Time{} // by UID
	for j.shared.diskFull.Await(ctx, backoff.Jitter(janitorEvery, janitorSpread)) == nil {
		j.removeUndefined(ctx, undefinedSince)
		j.evict(ctx)
	}
}

// removeUndefined removes mirrors that no definition has named for a while: their repositories were
// deleted while this replica was down, or defined again under another UID. A moment in which the
// definitions are not all known begins the while again.
func (j *janitor) removeUndefined(ctx context.Context, since map[string]time.Time) {
	defined, isCertain := j.shared.Named.Named()
	if !isCertain {
		clear(since)
		return
	}
	for _, r := range j.list() {
		defined[r.status.uid] = true
	}
	now := time.Now()
	for _, stored := range j.shared.Backend.Stored() {
		logger := j.shared.Logger.With(slog.String("leat.repository.uid", stored.UID), slog.Int64("bytes", stored.Bytes))
		first, isKnown := since[stored.UID]
		switch {
		case defined[stored.UID]:
			delete(since, stored.UID)
		case !isKnown:
			since[stored.UID] = now
		case now.Sub(first) >= undefinedGrace:
			delete(since, stored.UID)
			if err := j.shared.Backend.Remove(ctx, stored.UID); err != nil {
				logger.WarnContext(ctx, "mirror not removed", slog.Any("error", err))
				continue
			}
			j.shared.metrics.evicted(ctx, evictedUndefined)
			logger.InfoContext(ctx, "mirror of a deleted repository removed")
		}
	}
}

// evict removes copies that this replica neither owns nor has to follow, those first that were not
// read for longest, while the disk is fuller than it should be.
func (j *janitor) evict(ctx context.Context) {
	read := map[string]time.Time{}
	for _, stored := range j.shared.Backend.Stored() {
		read[stored.UID] = stored.ReadAt
	}
	list := j.list()
	slices.SortStableFunc(list, func(a, b *Repository) int { return read[a.status.uid].Compare(read[b.status.uid]) })
	for _, r := range list {
		usage := j.shared.Backend.Usage()
		if ctx.Err() != nil || usage.Limit == 0 || float64(usage.Bytes) <= highWater*float64(usage.Limit) {
			return
		}
		if r.follower.isRedundant(ctx) {
			r.local.evict(ctx)
		}
	}
}

// compact makes fewer files of the mirrors that this replica owns, one mirror after the other,
// until ctx is done.
func (j *janitor) compact(ctx context.Context) {
	retryAt := map[*Repository]time.Time{}
	for backoff.Wait(ctx, backoff.Jitter(janitorEvery, janitorSpread)) == nil {
		for _, r := range j.list() {
			if time.Now().Before(retryAt[r]) || ctx.Err() != nil {
				continue
			}
			delete(retryAt, r)
			if err := r.local.compact(ctx); err != nil && ctx.Err() == nil {
				retryAt[r] = time.Now().Add(compactRetry)
				j.shared.logger(r.status).WarnContext(ctx, "mirror not compacted", slog.Any("error", err))
			}
		}
	}
}
