// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

const (
	// maxDeltaBuilds bounds how many deltas are built at once: each holds two decompressors, a
	// compressor and two files.
	maxDeltaBuilds = 2
	// deltaTimeout bounds the building of one delta, with its bundles' fills.
	deltaTimeout = 2 * time.Minute
	// minDeltaBundle is the size from which a delta is built for a compressed bundle.
	minDeltaBundle = 2 << 10
	// deltaRetry is how long a pair is left alone if its delta could not be built.
	deltaRetry = time.Minute
)

// Opener opens bundles; [Cache] implements it.
type Opener interface {
	Open(ctx context.Context, bundle plan.Bundle) (*cas.Blob, error)
}

// deltaBuilder builds deltas into a store. It is safe for concurrent use.
type deltaBuilder struct {
	bundles    Opener
	store      *deltaStore
	tracer     trace.Tracer
	logger     *slog.Logger
	slots      *semaphore.Weighted
	compressor bundle.Compressor
}

// build builds a delta and stores it, or stores that there is none. It returns the result for the
// metric. The caller bounds it by deltaTimeout.
func (b *deltaBuilder) build(ctx context.Context, p pair, from, to plan.Bundle) (result string) {
	ctx, span := b.tracer.Start(ctx, "bundle.delta", trace.WithAttributes(
		attribute.String(telemetry.KeyDigest, p.to.String()), attribute.String("leat.digest.base", p.from.String()),
	))
	defer span.End()
	err := b.slots.Acquire(ctx, 1)
	if err == nil {
		defer b.slots.Release(1)
		err = b.make(ctx, p, from, to)
	}
	switch {
	case err == nil:
		return "built"
	case errors.Is(err, errNotSmaller), errors.Is(err, bundle.ErrTooLarge):
		b.store.decline(p, time.Time{})
		return "not smaller"
	}
	// Not logged above debug: the bundle is served whole next, which reports what it lacks.
	b.store.decline(p, time.Now().Add(deltaRetry))
	span.SetStatus(codes.Error, err.Error())
	b.logger.DebugContext(ctx, "no delta made", slog.String(telemetry.KeyDigest, p.to.String()), slog.Any("error", err))
	return "failed"
}

// make builds a delta into a file, which it removes if that fails.
func (b *deltaBuilder) make(ctx context.Context, p pair, from, to plan.Bundle) (err error) {
	next, err := b.bundles.Open(ctx, to)
	if err != nil {
		return err
	}
	defer func() { _ = next.Close() }()
	if next.StoredSize < minDeltaBundle {
		return errNotSmaller
	}
	base, err := b.bundles.Open(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }()
	file, err := b.store.files.Create()
	if err != nil {
		return fmt.Errorf("create delta: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}()
	out := &deltaWriter{ctx: ctx, file: file, hash: sha256.New(), left: next.StoredSize - 1}
	if err := b.write(out, p, base, next); err != nil {
		return err
	}
	return b.store.put(p, file, Delta{
		Tag: `"delta-` + hex.EncodeToString(out.hash.Sum(nil)) + `"`, Size: out.written, Full: next.StoredSize,
	})
}

// write writes a compressed delta.
func (b *deltaBuilder) write(w io.Writer, p pair, base, next *cas.Blob) error {
	limit := bundle.DefaultLimits().Bytes
	from, err := bundle.Decompress(base, limit)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := bundle.Decompress(next, limit)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	compressed, err := b.compressor.Compress(w)
	if err != nil {
		return err
	}
	err = bundle.WriteDelta(compressed, bundle.Tar{Digest: p.from, Content: from}, bundle.Tar{Digest: p.to, Content: to}, bundle.Limits{})
	return errors.Join(err, compressed.Close())
}

// deltaWriter writes a delta to a file and sums it up. It fails when the context has ended, so that
// a slow delta does not hold its slot, and when the delta has become as large as the bundle,
// because the rest would be wasted.
type deltaWriter struct {
	ctx     context.Context //nolint:containedctx // io.Writer has no other way to be cancelled
	file    *os.File
	hash    hash.Hash
	left    int64
	written int64
}

// Write implements io.Writer.
func (w *deltaWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	if w.left -= int64(len(p)); w.left < 0 {
		return 0, errNotSmaller
	}
	n, err := w.file.Write(p)
	w.written += int64(n)
	_, _ = w.hash.Write(p[:n]) // never fails
	if err != nil {
		return n, fmt.Errorf("write delta: %w", err)
	}
	return n, nil
}
