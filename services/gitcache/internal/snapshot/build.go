// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
)

// flight is one build that several callers wait for.
type flight struct {
	done     chan struct{} // closed when snapshot and err are set
	snapshot Snapshot
	err      error
}

// build joins the build of that tree, or begins one. The build goes on when its first caller gives up.
func (b *Builder) build(ctx context.Context, key treeKey) (Snapshot, error) {
	b.mu.Lock()
	f, ok := b.flights[key]
	if !ok {
		f = &flight{done: make(chan struct{})}
		b.flights[key] = f
		go b.fly(context.WithoutCancel(ctx), key, f) // ends with the build's own time limit
	}
	b.mu.Unlock()
	select {
	case <-ctx.Done():
		return Snapshot{}, context.Cause(ctx)
	case <-f.done:
		return f.snapshot, f.err
	}
}

func (b *Builder) fly(ctx context.Context, key treeKey, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, b.params.Timeout)
	defer cancel()
	f.snapshot, f.err = b.buildOnce(ctx, key)
	b.mu.Lock()
	delete(b.flights, key)
	b.mu.Unlock()
	close(f.done)
}

func (b *Builder) buildOnce(ctx context.Context, key treeKey) (Snapshot, error) {
	if err := b.building.Acquire(ctx, 1); err != nil {
		return Snapshot{}, context.Cause(ctx)
	}
	defer b.building.Release(1)
	ctx, span := b.params.Tracer.Start(ctx, "bundle.build", trace.WithAttributes(
		attribute.String("leat.repository.uid", key.uid), attribute.String("leat.tree", key.id)))
	defer span.End()
	started := time.Now()
	s, err := b.spool(ctx, key)
	b.duration.Record(ctx, time.Since(started).Seconds())
	if err != nil {
		span.SetStatus(codes.Error, "build did not succeed")
		if permanent(err) {
			b.refused.put(key, err)
		}
		return Snapshot{}, err
	}
	span.SetAttributes(attribute.String("leat.digest", s.Digest.String()), attribute.Int("leat.files", s.FileCount))
	if err := b.params.Index.Put(key.uid, key.id, s); err != nil { // costs a build after the next restart, no more
		b.params.Logger.WarnContext(ctx, "digest not remembered", slog.Any("error", err))
	}
	return s, nil
}

// permanent tells whether the same tree fails in the same way for ever.
func permanent(err error) bool {
	return errors.Is(err, ErrUnsupported) || errors.Is(err, bundle.ErrTooLarge)
}

// spool writes the bundle to a temporary file, because its digest, under which it is stored, is known only at the end.
func (b *Builder) spool(ctx context.Context, key treeKey) (Snapshot, error) {
	file, err := os.CreateTemp(b.params.TempDir, "bundle-")
	if err != nil {
		return Snapshot{}, fmt.Errorf("spool bundle: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	s, err := b.write(ctx, key, file)
	if err != nil {
		return Snapshot{}, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return Snapshot{}, fmt.Errorf("spool bundle: %w", err)
	}
	info, err := b.params.Store.Put(ctx, s.Digest, file)
	if err != nil {
		return Snapshot{}, fmt.Errorf("store bundle: %w", err)
	}
	return describe(s, info), nil
}

func describe(s Snapshot, info cas.Info) Snapshot {
	s.ContentSize, s.StoredSize = info.ContentSize, info.StoredSize
	return s
}

// write writes the compressed canonical bundle of a tree to w.
func (b *Builder) write(ctx context.Context, key treeKey, w io.Writer) (Snapshot, error) {
	r, err := b.params.Mirrors.Open(ctx, key.uid)
	if err != nil {
		return Snapshot{}, err
	}
	defer func() { _ = r.Close() }()
	compressed, err := b.compressor.Compress(w)
	if err != nil {
		return Snapshot{}, err
	}
	out := newPipeline(compressed)
	p := &packer{out: bundle.NewWriter(out, b.params.Limits)}
	err = r.Walk(ctx, key.id, p.add)
	if err == nil {
		err = p.out.Close()
	}
	d, err := out.finish(refine(err))
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Digest: d, FileCount: p.files}, nil
}

// refine turns what a bundle refuses into what the folder's owner has to change.
func refine(err error) error {
	if entry, ok := errors.AsType[*bundle.EntryError](err); ok {
		return &UnsupportedError{Path: entry.Name, Reason: entry.Reason}
	}
	return err
}
