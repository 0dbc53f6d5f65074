// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	tendEvery  = time.Minute
	tendSpread = 0.25
	// strangerGrace is how long a mirror without a definition stays: definitions that got lost are put back sooner.
	strangerGrace = 10 * time.Minute
	// highWater is the share of the disk from which copies that are not needed go.
	highWater = 0.9
	// compactRetry is the pause after a compaction that failed.
	compactRetry = time.Hour
)

// tend keeps the folder of mirrors within its bounds until ctx is done.
func (s *Set) tend(ctx context.Context) {
	strangers := map[string]time.Time{} // UID → since when nobody defines it
	for s.awaitTending(ctx) == nil {
		s.removeStrangers(ctx, strangers)
		s.evict(ctx)
	}
}

// awaitTending waits for some time, or until a fetch found the disk full.
func (s *Set) awaitTending(ctx context.Context) error {
	timer := time.NewTimer(backoff.Jitter(tendEvery, tendSpread))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-s.shared.full:
	}
	return nil
}

// noteFull has room made soon.
func (s *shared) noteFull() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// removeStrangers removes mirrors that no definition has named for a while: their repositories were deleted while this
// replica was down, or made anew.
func (s *Set) removeStrangers(ctx context.Context, since map[string]time.Time) {
	named, sure := s.shared.Named.Named()
	if !sure {
		clear(since)
		return
	}
	for _, r := range s.List() {
		named[r.uid] = true
	}
	now := time.Now()
	for _, stored := range s.shared.Backend.Stored() {
		first, known := since[stored.UID]
		switch {
		case named[stored.UID]:
			delete(since, stored.UID)
		case !known:
			since[stored.UID] = now
		case now.Sub(first) >= strangerGrace:
			delete(since, stored.UID)
			s.removeStranger(ctx, stored)
		}
	}
}

func (s *Set) removeStranger(ctx context.Context, stored mirror.Stored) {
	logger := s.shared.Logger.With(slog.String("leat.repository.uid", stored.UID), slog.Int64("bytes", stored.Bytes))
	if err := s.shared.Backend.Remove(ctx, stored.UID); err != nil {
		logger.WarnContext(ctx, "mirror not removed", slog.Any("error", err))
		return
	}
	s.shared.upkeep.evicted(ctx, evictedUndefined)
	logger.InfoContext(ctx, "mirror of a deleted repository removed")
}

// evict removes copies that this replica neither owns nor has to follow, those first that were not read for longest, while
// the disk is fuller than it should be.
func (s *Set) evict(ctx context.Context) {
	read := map[string]time.Time{}
	for _, stored := range s.shared.Backend.Stored() {
		read[stored.UID] = stored.ReadAt
	}
	list := s.List()
	slices.SortStableFunc(list, func(a, b *Repository) int { return read[a.uid].Compare(read[b.uid]) })
	for _, r := range list {
		if usage := s.shared.Backend.Usage(); ctx.Err() != nil || usage.Limit == 0 || float64(usage.Bytes) <= highWater*float64(usage.Limit) {
			return
		}
		if r.unneeded(ctx) {
			r.evict(ctx)
		}
	}
}

// unneeded tells whether others keep the repository's mirror, and this replica has one too many.
func (r *Repository) unneeded(ctx context.Context) bool {
	content, err := r.Content()
	if err != nil || r.Epoch() != 0 {
		return false
	}
	owner, err := r.Owner(ctx)
	if err != nil || owner == "" || r.follows(owner) {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	_, err = r.shared.Replicas.Inspect(asking, owner, r.Definition(), content.Fingerprint())
	return err == nil
}

// evict removes the mirror, unless it is being written or has become the owner's.
func (r *Repository) evict(ctx context.Context) {
	if !r.disk.TryAcquire(1) {
		return
	}
	defer r.disk.Release(1)
	if r.Epoch() != 0 {
		return
	}
	logger := r.shared.Logger.With(slog.String("leat.repository", r.name))
	if err := r.shared.Backend.Remove(ctx, r.uid); err != nil {
		logger.WarnContext(ctx, "mirror not removed", slog.Any("error", err))
		return
	}
	r.mu.Lock()
	r.content = mirror.Content{Epoch: r.content.Epoch}
	r.signalLocked()
	r.mu.Unlock()
	r.shared.upkeep.evicted(ctx, evictedUnneeded)
	logger.InfoContext(ctx, "copy of a mirror evicted")
}

// compact makes fewer files of the mirrors that this replica owns, one mirror after the other, until ctx is done. Followers
// copy what comes of it; if they compacted by themselves, they would have files that the owner has not, and copy for ever.
func (s *Set) compact(ctx context.Context) {
	retry := map[*Repository]time.Time{}
	for backoff.Wait(ctx, backoff.Jitter(tendEvery, tendSpread)) == nil {
		for _, r := range s.List() {
			if time.Now().Before(retry[r]) || ctx.Err() != nil {
				continue
			}
			delete(retry, r)
			if err := r.compact(ctx); err != nil && ctx.Err() == nil {
				retry[r] = time.Now().Add(compactRetry)
				s.shared.Logger.WarnContext(ctx, "mirror not compacted", slog.String("leat.repository", r.name), slog.Any("error", err))
			}
		}
	}
}

var errNoLongerOwned = errors.New("the repository is another replica's now")

func (r *Repository) compact(ctx context.Context) error {
	if r.State().FreshAt.IsZero() || r.Epoch() == 0 {
		return nil
	}
	entered := false
	done, err := r.shared.Backend.Compact(ctx, r.uid, func(ctx context.Context) (func(), error) {
		if err := r.disk.Acquire(ctx, 1); err != nil {
			return nil, context.Cause(ctx)
		}
		if r.Epoch() == 0 {
			r.disk.Release(1)
			return nil, errNoLongerOwned
		}
		entered = true
		return func() { r.disk.Release(1) }, nil
	})
	if errors.Is(err, errNoLongerOwned) {
		return nil
	}
	if err == nil && !entered {
		return nil
	}
	r.shared.upkeep.compacted(ctx, done, err)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.content.DiskBytes, r.content.Packs = done.BytesAfter, done.PacksAfter
	r.mu.Unlock()
	r.shared.Logger.InfoContext(ctx, "mirror compacted", slog.String("leat.repository", r.name),
		slog.Int("packs_before", done.PacksBefore), slog.Int("packs", done.PacksAfter),
		slog.Int64("bytes_before", done.BytesBefore), slog.Int64("bytes", done.BytesAfter), slog.Bool("full", done.Full))
	return nil
}
