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
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
)

// buildKey names a build. With store it writes the bundle even if its digest is known: the store
// has lost it.
type buildKey struct {
	outline treeKey
	store   bool
}

// build joins the build of that key, or begins one. The build goes on when its first caller gives
// up.
func (b *Builder) build(ctx context.Context, from Folder, key buildKey) (Snapshot, error) {
	return b.builds.Do(ctx, key, func(ctx context.Context) (Snapshot, error) { return b.buildOnce(ctx, from, key) })
}

// maxRounds bounds how often a build may find that something else has to be fetched first.
const maxRounds = 32

// buildOnce builds, and fetches between one try and the next what turned out to be kept outside the
// mirror.
func (b *Builder) buildOnce(ctx context.Context, from Folder, key buildKey) (Snapshot, error) {
	state := &chartState{found: map[chartdep.Need]chartdep.Artifact{}}
	for round := 0; ; round++ {
		s, err := b.attempt(ctx, from, key, state)
		absent, ok := errors.AsType[*absentError](err)
		if !ok || round == maxRounds {
			return s, err
		}
		if err := b.fetch(ctx, absent, state); err != nil {
			return Snapshot{}, err
		}
	}
}

// attempt builds once, within the bound of builds, and records how it ended.
func (b *Builder) attempt(ctx context.Context, from Folder, key buildKey, state *chartState) (Snapshot, error) {
	release, err := b.acquire(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer release()
	ctx, span := b.params.Tracer.Start(ctx, "bundle.build", trace.WithAttributes(
		attribute.String("leat.repository", from.Repository), attribute.String("leat.repository.uid", from.UID),
		attribute.Int64("leat.epoch", int64(from.Epoch)), attribute.String("leat.commit", from.Commit)))
	defer span.End()
	started := time.Now()
	s, completed, err := b.read(ctx, from, key.store, state)
	b.metrics.built(ctx, started, err)
	if err != nil {
		span.SetStatus(codes.Error, "build did not succeed")
		if isPermanent(err) && completed.dependencies().isEmpty() { // else it may be due to what the outline does not cover
			b.refused.Add(key.outline, err)
		}
		return Snapshot{}, err
	}
	span.SetAttributes(attribute.String("leat.digest", s.Digest.String()), attribute.Int("leat.files", s.FileCount))
	b.rememberOutline(ctx, key.outline, s, completed)
	return s, nil
}

// rememberOutline remembers the digest of a selection. Where charts were completed, the outline leads
// to what they depend on, and that, as it was, to the digest. A list that is too long is not remembered:
// the next resolve makes it again.
func (b *Builder) rememberOutline(ctx context.Context, outline treeKey, s Snapshot, c *completer) {
	d := c.dependencies()
	if d.isEmpty() {
		b.remember(ctx, outline, s)
		return
	}
	if d.weight() <= rememberWeight {
		b.dependencies.Add(outline, d)
	}
	b.remember(ctx, completed(outline, c.trees, c.state.found, d), s)
}

// acquire blocks until one more build may run.
func (b *Builder) acquire(ctx context.Context) (release func(), err error) {
	b.metrics.waiting.Add(1)
	defer b.metrics.waiting.Add(-1)
	if err := b.building.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { b.building.Release(1) }, nil
}

// remember puts a digest into the index. Failing to costs one build after the next restart, so it
// is only logged.
func (b *Builder) remember(ctx context.Context, key treeKey, s Snapshot) {
	if err := b.params.Index.Put(key.uid, key.id, s); err != nil {
		b.params.Logger.WarnContext(ctx, "digest not remembered", slog.Any("error", err))
	}
}

// read finds what is selected, and makes its bundle unless the digest of just these leaves is
// known. It also returns what was packed for charts; nil: nothing, or it did not come to that.
func (b *Builder) read(ctx context.Context, from Folder, store bool, state *chartState) (Snapshot, *completer, error) {
	mirrors := &mirrorReader{mirrors: b.params.Mirrors}
	defer mirrors.Close()
	leaves, completed, err := b.plan(ctx, mirrors, from, state)
	if err != nil {
		return Snapshot{}, completed, asAbsent(mirrors.uid, err)
	}
	key := treeKey{from.UID, keyOf(leaves)}
	if s, ok := b.params.Index.Get(key.uid, key.id); ok && !store {
		return s, completed, nil
	}
	if err := checkBlobs(ctx, mirrors, leaves); err != nil {
		return Snapshot{}, completed, err
	}
	s, err := b.spool(ctx, mirrors, leaves)
	if err == nil {
		b.remember(ctx, key, s)
	}
	return s, completed, asAbsent(mirrors.uid, err)
}

// isPermanent reports whether the same content fails in the same way for ever.
func isPermanent(err error) bool {
	_, empty := errors.AsType[*EmptyError](err)
	return empty || errors.Is(err, ErrUnsupported) || errors.Is(err, bundle.ErrTooLarge)
}

// spool writes the bundle to a temporary file, because its digest, under which it is stored, is
// known only at the end.
func (b *Builder) spool(ctx context.Context, mirrors *mirrorReader, leaves []leaf) (Snapshot, error) {
	file, err := os.CreateTemp(b.params.TempDir, "bundle-")
	if err != nil {
		return Snapshot{}, fmt.Errorf("spool bundle: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	s, err := b.write(ctx, mirrors, leaves, file)
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
	s.ContentSize, s.StoredSize = info.ContentSize, info.StoredSize
	return s, nil
}

// write writes the compressed canonical bundle of the leaves to w.
func (b *Builder) write(ctx context.Context, mirrors *mirrorReader, leaves []leaf, w io.Writer) (Snapshot, error) {
	compressed, err := b.compressor.Compress(w)
	if err != nil {
		return Snapshot{}, err
	}
	out := newPipeline(compressed)
	p := &packer{builder: b, mirrors: mirrors, out: bundle.NewWriter(out, b.params.Limits)}
	err = p.addAll(ctx, leaves)
	if err == nil {
		err = p.out.Close()
	}
	d, err := out.finish(err)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Digest: d, FileCount: len(leaves)}, nil
}
