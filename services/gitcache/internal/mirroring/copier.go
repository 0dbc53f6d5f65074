// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// errCompacted means that the files which were being copied have made way for newer ones: those are
// there to be copied.
var errCompacted = errors.New("copy mirror: the other replica's files are others now")

// copier makes this replica's mirror hold what another replica's does.
//
// A tenure that begins ends the copy that is being made. The tenure sets the epoch first and calls
// stop second; a copy registers first and reads the epoch second. So the copy sees the tenure, or
// the tenure sees the copy.
type copier struct {
	shared *shared
	status *status
	local  *localMirror
	cancel atomic.Pointer[context.CancelFunc] // ends the copy that is being made; nil: none is
}

// stop ends the copy that is being made.
func (c *copier) stop() {
	if cancel := c.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}

// catchUp copies what another replica has and this one lacks. It does nothing where this replica is
// the owner.
func (c *copier) catchUp(ctx context.Context, replica string) error {
	release, err := c.shared.slot(ctx, queueCopy)
	if err != nil {
		return err
	}
	defer release()
	unlock, err := c.local.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	copying, cancel := context.WithCancel(ctx)
	defer cancel()
	c.cancel.Store(&cancel)
	defer c.cancel.Store(nil)
	if c.status.epoch() != 0 {
		return nil
	}
	err = c.copyMirror(copying, replica)
	if err == nil {
		err = c.copyObjects(copying, replica)
	}
	// Without a mirror over there, the event of its first fetch wakes the follower. A tenure that
	// has begun copies on its own.
	if errors.Is(err, mirror.ErrNoMirror) || c.status.epoch() != 0 {
		return nil
	}
	return err
}

// inherit fills an empty mirror from whatever replica holds one, so that the upstream is asked only
// for new content. Where none does, the mirror stays empty. The caller is the writer.
func (c *copier) inherit(ctx context.Context) {
	logger := c.shared.logger(c.status)
	for _, member := range c.shared.view().Others(c.status.placementKey) {
		if ctx.Err() != nil {
			return
		}
		err := c.copyMirror(ctx, member)
		if err == nil {
			if err := c.copyObjects(ctx, member); err != nil { // each is asked for again when it is needed
				logger.InfoContext(ctx, "objects not inherited", slog.Any("error", err))
			}
			logger.InfoContext(ctx, "mirror inherited", slog.String("from", member))
			return
		}
		if !errors.Is(err, mirror.ErrNoMirror) {
			logger.InfoContext(ctx, "mirror not inherited", slog.String("from", member), slog.Any("error", err))
		}
	}
}

// copyMirror makes this replica's mirror hold what another's does, unless its own is newer. The
// caller is the writer.
func (c *copier) copyMirror(ctx context.Context, replica string) error {
	mine := c.status.holding.read().content // none is a value too
	theirs, err := c.shared.inspect(ctx, replica, c.status.definition(), mine.Fingerprint())
	if err != nil {
		return err
	}
	if mine.Exists() && !theirs.Content.Newer(mine) {
		return nil
	}
	if mine.Exists() && theirs.Fingerprint == mine.Fingerprint() { // the same, seen at the upstream later
		mine.FreshAt, mine.Epoch = theirs.Content.FreshAt, theirs.Content.Epoch
		if err := c.shared.Backend.Confirm(ctx, c.status.uid, mine); err != nil {
			return err
		}
		c.status.holding.replace(mine)
		return nil
	}
	if err := theirs.Check(); err != nil {
		return err
	}
	theirs.Doubted = !mine.Exists()
	content, err := c.adopt(ctx, replica, theirs)
	if errors.Is(err, mirror.ErrNoMirror) {
		return errCompacted
	}
	if err != nil {
		return fmt.Errorf("copy mirror: %w", err)
	}
	c.status.holding.replace(content)
	return nil
}

// adopt copies the files that this replica's mirror lacks.
func (c *copier) adopt(ctx context.Context, replica string, theirs mirror.Copy) (mirror.Content, error) {
	limited, stop := context.WithTimeout(ctx, c.shared.Settings.CloneTimeout)
	defer stop()
	limited, span := c.shared.Tracer.Start(limited, "mirror.copy", trace.WithAttributes(
		attribute.String("leat.repository", c.status.name), attribute.String("leat.repository.uid", c.status.uid),
		attribute.Int64("leat.epoch", int64(theirs.Content.Epoch)),
		attribute.String("leat.copy.from", mirror.ReplicaURL(replica))))
	defer span.End()
	started, def := time.Now(), c.status.definition()
	open := func(ctx context.Context, f mirror.File) (io.ReadCloser, error) {
		return c.shared.Replicas.Read(ctx, replica, def, theirs.Generation, f.Name)
	}
	content, err := c.shared.Backend.Adopt(limited, c.status.uid, theirs, open)
	if err != nil {
		span.SetStatus(codes.Error, "copy did not succeed")
	}
	c.shared.metrics.copied(limited, time.Since(started), err)
	return content, err
}

// copyObjects makes this replica hold the objects beside the mirror that another one does.
func (c *copier) copyObjects(ctx context.Context, replica string) error {
	if c.shared.Objects == nil {
		return nil
	}
	if err := c.shared.Objects.Copy(ctx, replica, c.status.definition()); err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	return nil
}
