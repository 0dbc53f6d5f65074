// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

var errNotOwned = errors.New("another replica owns the repository now")

// localMirror is the mirror of a repository on this replica's disk. Its files have one writer at a
// time: a fetch, the steps of a fill that write, a copy, a compaction's last step or an eviction.
// The resulting refs are in the holding before the next writer begins.
type localMirror struct {
	shared *shared
	status *status
	writer *semaphore.Weighted // of one
}

// lock blocks until the caller is the writer.
func (m *localMirror) lock(ctx context.Context) (unlock func(), err error) {
	if err := m.writer.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { m.writer.Release(1) }, nil
}

// load takes over what the disk holds. A mirror that cannot be read is cloned again; that is no
// reason not to run.
func (m *localMirror) load(ctx context.Context) {
	release, err := m.shared.slot(ctx, queueFetch) // a thousand mirrors are not verified at once
	if err != nil {
		return
	}
	defer release()
	content, err := m.shared.Backend.Load(ctx, m.status.uid)
	if err != nil && !errors.Is(err, mirror.ErrNoMirror) {
		m.shared.logger(m.status).WarnContext(ctx, "mirror not readable", slog.Any("error", err))
	}
	m.status.holding.load(content)
}

// saveDelivery keeps durably which commits are delivered: a restart has to know the last commits
// that passed. Content that another change has replaced is saved by that change.
func (m *localMirror) saveDelivery(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now := m.status.holding.read()
	if !now.isDelivered() {
		return nil
	}
	if err := m.shared.Backend.SaveDelivery(ctx, m.status.uid, now.content); err != nil {
		return fmt.Errorf("save what is delivered: %w", err)
	}
	return nil
}

// evict removes the mirror, unless it is being written or has become the owner's.
func (m *localMirror) evict(ctx context.Context) {
	if !m.writer.TryAcquire(1) {
		return
	}
	defer m.writer.Release(1)
	if m.status.epoch() != 0 {
		return
	}
	logger := m.shared.logger(m.status)
	if err := m.shared.Backend.Remove(ctx, m.status.uid); err != nil {
		logger.WarnContext(ctx, "mirror not removed", slog.Any("error", err))
		return
	}
	m.status.holding.discard()
	m.shared.metrics.evicted(ctx, evictedUnneeded)
	logger.InfoContext(ctx, "copy of a mirror evicted")
}

// remove removes all that the disk has of a repository that is defined no more.
func (m *localMirror) remove(ctx context.Context) {
	logger := m.shared.logger(m.status)
	logger.InfoContext(ctx, "repository deleted")
	if m.shared.Objects != nil {
		if err := m.shared.Objects.Remove(ctx, m.status.uid); err != nil {
			logger.WarnContext(ctx, "objects not removed", slog.Any("error", err))
		}
	}
	if err := m.shared.Backend.Remove(ctx, m.status.uid); err != nil {
		logger.WarnContext(ctx, "mirror not removed", slog.Any("error", err))
	}
}

// compact makes fewer files of the mirror, if this replica owns it. Followers copy what comes of
// it; if they compacted on their own, they would have files that the owner has not, and copy for
// ever.
func (m *localMirror) compact(ctx context.Context) error {
	if !m.status.holding.read().content.Exists() || m.status.epoch() == 0 {
		return nil
	}
	hasEntered := false
	done, err := m.shared.Backend.Compact(ctx, m.status.uid, func(ctx context.Context) (func(), error) {
		unlock, err := m.lock(ctx)
		if err != nil {
			return nil, err
		}
		if m.status.epoch() == 0 {
			unlock()
			return nil, errNotOwned
		}
		hasEntered = true
		return unlock, nil
	})
	if errors.Is(err, errNotOwned) || err == nil && !hasEntered {
		return nil
	}
	m.shared.metrics.compacted(ctx, done, err)
	if err != nil {
		return err
	}
	m.status.holding.amend(func(c *mirror.Content) { c.DiskBytes, c.Packs = done.BytesAfter, done.PacksAfter })
	m.shared.logger(m.status).InfoContext(ctx, "mirror compacted",
		slog.Int("packs_before", done.PacksBefore), slog.Int("packs", done.PacksAfter),
		slog.Int64("bytes_before", done.BytesBefore), slog.Int64("bytes", done.BytesAfter), slog.Bool("full", done.Full))
	return nil
}
