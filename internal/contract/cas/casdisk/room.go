// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	// highWater and lowWater are percentages of the bound: eviction begins above the first and
	// stops at the second. The next blobs then find room at once, and eviction runs in batches.
	highWater, lowWater = 90, 80
	// defaultMinFree is the room that other users of the file system need, and minFreeShare bounds it
	// on a small one, in percent.
	defaultMinFree = 1 << 30
	minFreeShare   = 5
	// shedAtOnce bounds the eviction while all other calls wait for the index.
	shedAtOnce = 64 << 20
	// roomEvery is how often the free room of the file system is checked while nothing is written.
	roomEvery = time.Minute
)

// keepRoom evicts when a mark is passed. It checks whenever a blob has been stored, and
// periodically.
func (s *Store) keepRoom(ctx context.Context) error {
	for {
		s.index.Tidy()
		s.makeRoom(ctx)
		if err := s.stored.Await(ctx, backoff.Jitter(roomEvery, 0.25)); err != nil {
			return err
		}
	}
}

// makeRoom evicts down to the low mark if the high one is passed: the bound's, or the file
// system's.
func (s *Store) makeRoom(ctx context.Context) {
	missing := max(s.overBound(), s.overDisk(ctx))
	for missing > 0 && ctx.Err() == nil {
		n := s.index.Shed(min(missing, shedAtOnce))
		if n == 0 {
			return // the rest is pinned, or not ours
		}
		missing -= n
	}
}

// overBound returns how many bytes are stored above the low mark, or 0 unless the high mark is
// passed.
func (s *Store) overBound() int64 {
	usage := s.index.Usage()
	if usage.Bytes <= usage.MaxBytes*highWater/100 {
		return 0
	}
	return usage.Bytes - usage.MaxBytes*lowWater/100
}

// overDisk returns how many bytes the file system lacks to twice the minimum, or 0 unless less than
// the minimum is free.
func (s *Store) overDisk(ctx context.Context) int64 {
	if s.cfg.MinFreeBytes < 0 {
		return 0
	}
	free, total, err := s.disk.space(s.cfg.Dir)
	if err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "free space of the disk is unknown", slog.Any("error", err))
		return 0
	}
	least := s.cfg.MinFreeBytes
	if least == 0 {
		least = min(defaultMinFree, total*minFreeShare/100)
	}
	if free >= least {
		return 0
	}
	return 2*least - free
}
