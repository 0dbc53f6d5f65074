// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/cas"
)

const (
	// highWater and lowWater are percentages of the bound: eviction begins above the first and
	// stops at the second. The next blobs then find room at once, and eviction runs in batches.
	highWater, lowWater = 90, 80
	// defaultMinFree is what other users of the file system need, and minFreeShare bounds it on a
	// small one, in percent.
	defaultMinFree = 1 << 30
	minFreeShare   = 5
	// shedAtOnce bounds what is evicted while all other calls wait for the index.
	shedAtOnce = 64 << 20
	// roomEvery is how often the free room of the file system is checked while nothing is written.
	roomEvery = time.Minute
)

// reserve counts n bytes that are about to be written, and evicts blobs for them. If that is not
// enough, nothing is counted and the error is cas.ErrFull. Nothing is evicted either if that was
// foreseeable.
func (x *index) reserve(n int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if over := x.used + n - x.limit; over > 0 {
		victims, sum := x.victims(over)
		if sum >= over {
			sum = x.evict(victims, over)
		}
		if sum < over {
			return fmt.Errorf("%w: %d of %d bytes used, %d of them can be evicted", cas.ErrFull, x.used, x.limit, sum)
		}
	}
	x.used += n
	return nil
}

// shed evicts about n bytes regardless of the bound, and returns how many bytes it freed.
func (x *index) shed(n int64) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	victims, _ := x.victims(n)
	return x.evict(victims, n)
}

// victims returns the least recently read blobs that are not pinned: enough of them for n bytes, if
// there are that many, and a few more in case some cannot be removed.
func (x *index) victims(n int64) (victims []*entry, sum int64) {
	const spare = 8
	enough := 0
	for element := x.recency.Back(); element != nil && enough <= spare; element = element.Prev() {
		e := of(element)
		if x.pinned(e.info.Digest) {
			continue
		}
		victims = append(victims, e)
		sum += e.info.StoredSize
		if sum >= n {
			enough++
		}
	}
	return victims, sum
}

// evict removes blobs until n bytes are freed, and returns how many were.
func (x *index) evict(victims []*entry, n int64) (sum int64) {
	for _, e := range victims {
		if sum >= n {
			break
		}
		if x.unlink(x.path(e.info)) != nil {
			continue // another one may go
		}
		x.drop(e)
		sum += e.info.StoredSize
		x.gone(e.info)
	}
	return sum
}

// discardFile removes an unwanted file. If that fails, it remembers the file and keeps its bytes
// counted.
func (x *index) discardFile(path string, size int64) {
	if x.unlink(path) != nil {
		x.litter[path] = size
		x.used += size
	}
}

// discardReserved is discardFile for a file whose bytes are counted as a reservation.
func (x *index) discardReserved(path string, size int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used -= size
	x.discardFile(path, size)
}

// tidy tries again to remove the files that could not be removed.
func (x *index) tidy() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for path, size := range x.litter {
		if x.unlink(path) == nil {
			x.used -= size
			delete(x.litter, path)
		}
	}
}

// keepRoom evicts when a mark is passed. It checks whenever a blob has been stored, and
// periodically.
func (s *Store) keepRoom(ctx context.Context) error {
	for {
		s.index.tidy()
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
		n := s.index.shed(min(missing, shedAtOnce))
		if n == 0 {
			return // the rest is pinned, or not ours
		}
		missing -= n
	}
}

// overBound returns how many bytes are stored above the low mark, or 0 unless the high mark is
// passed.
func (s *Store) overBound() int64 {
	usage := s.index.usage()
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
