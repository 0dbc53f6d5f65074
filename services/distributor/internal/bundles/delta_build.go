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

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// errNotSmaller ends the making of a delta that is no smaller than the bundle.
var errNotSmaller = errors.New("delta is not smaller than the bundle")

// build makes a delta and stores it, or stores that there is none.
func (d *Deltas) build(ctx context.Context, p pair, from, to plan.Bundle) {
	ctx, cancel := context.WithTimeout(ctx, deltaTimeout)
	defer cancel()
	ctx, span := d.tracer.Start(ctx, "bundle.delta", trace.WithAttributes(
		attribute.String(telemetry.KeyDigest, p.to.String()), attribute.String("leat.digest.base", p.from.String()),
	))
	defer span.End()
	err := d.slots.Acquire(ctx, 1)
	if err == nil {
		defer d.slots.Release(1)
		err = d.make(ctx, p, from, to)
	}
	switch {
	case err == nil:
		d.count(ctx, "built")
	case errors.Is(err, errNotSmaller), errors.Is(err, bundle.ErrTooLarge):
		d.store.decline(p, time.Time{})
		d.count(ctx, "not smaller")
	default:
		// Not logged above debug: what a bundle lacks is told when it is served whole, which is what happens next.
		d.store.decline(p, time.Now().Add(deltaRetry))
		span.SetStatus(codes.Error, err.Error())
		d.logger.DebugContext(ctx, "no delta made", slog.String(telemetry.KeyDigest, p.to.String()), slog.Any("error", err))
		d.count(ctx, "failed")
	}
}

func (d *Deltas) make(ctx context.Context, p pair, from, to plan.Bundle) (err error) {
	next, err := d.bundles.Open(ctx, to)
	if err != nil {
		return err
	}
	defer func() { _ = next.Close() }()
	if next.StoredSize < minDeltaBundle {
		return errNotSmaller
	}
	base, err := d.bundles.Open(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }()
	file, err := d.store.create()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}()
	out := &deltaWriter{ctx: ctx, file: file, hash: sha256.New(), left: next.StoredSize - 1}
	if err := d.write(out, p, base, next); err != nil {
		return err
	}
	return d.store.put(p, file, Delta{
		Tag: `"delta-` + hex.EncodeToString(out.hash.Sum(nil)) + `"`, Size: out.written, Full: next.StoredSize,
	})
}

// write writes a compressed delta.
func (d *Deltas) write(w io.Writer, p pair, base, next *cas.Blob) error {
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
	compressed, err := d.compressor.Compress(w)
	if err != nil {
		return err
	}
	err = bundle.WriteDelta(compressed, bundle.Tar{Digest: p.from, Content: from}, bundle.Tar{Digest: p.to, Content: to}, bundle.Limits{})
	return errors.Join(err, compressed.Close())
}

// deltaWriter writes to a file and ends when the context does, or the delta is as large as the bundle.
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
