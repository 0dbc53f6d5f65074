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

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/charts"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// buildKey names a build. With store it writes the bundle even if its digest is known: the store
// has lost it.
type buildKey struct {
	outline treeKey
	store   bool
}

// build joins the build of that key, or begins one. The build continues when its first caller gives
// up.
func (b *Builder) build(ctx context.Context, from Folder, key buildKey) (Snapshot, error) {
	return b.builds.Do(ctx, key, func(ctx context.Context) (Snapshot, error) { return b.buildOnce(ctx, from, key) })
}

// maxRounds bounds how often a build may find that something else has to be fetched first.
const maxRounds = 32

// buildOnce builds, and fetches between one try and the next what turned out to be kept outside the
// mirror.
func (b *Builder) buildOnce(ctx context.Context, from Folder, key buildKey) (Snapshot, error) {
	found := charts.Artifacts{}
	for round := 0; ; round++ {
		s, err := b.attempt(ctx, from, key, found)
		absent, ok := errors.AsType[*leaves.AbsentError](err)
		if !ok || round == maxRounds {
			return s, err
		}
		if err := absent.Fetch(ctx); err != nil {
			return Snapshot{}, err
		}
	}
}

// attempt builds once, within the bound of builds, and records how it ended.
func (b *Builder) attempt(ctx context.Context, from Folder, key buildKey, found charts.Artifacts) (Snapshot, error) {
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
	s, completed, err := b.read(ctx, from, key.store, found)
	b.metrics.built(ctx, started, err)
	if err != nil {
		span.SetStatus(codes.Error, "build did not succeed")
		if isPermanent(err) && completed.Dependencies().IsEmpty() { // else it may be due to what the outline does not cover
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
func (b *Builder) rememberOutline(ctx context.Context, outline treeKey, s Snapshot, c charts.Completion) {
	d := c.Dependencies()
	if d.IsEmpty() {
		b.remember(ctx, outline, s)
		return
	}
	if d.Weight() <= rememberWeight {
		b.dependencies.Add(outline, d)
	}
	b.remember(ctx, treeKey{outline.uid, c.Key(outline.id)}, s)
}

// acquire blocks until one more build may run.
func (b *Builder) acquire(ctx context.Context) (release func(), err error) {
	defer b.metrics.waiting.Join()()
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

// read finds the selected files, and makes its bundle unless the digest of just these leaves is
// known. It also returns the packed dependencies of charts.
func (b *Builder) read(
	ctx context.Context, from Folder, store bool, found charts.Artifacts,
) (Snapshot, charts.Completion, error) {
	mirrors := &leaves.Reader{Mirrors: b.mirrors}
	defer mirrors.Close()
	selected, completed, err := b.plan(ctx, mirrors, from, found)
	if err != nil {
		return Snapshot{}, completed, mirrors.Absent(err)
	}
	key := treeKey{from.UID, keyOf(selected)}
	if s, ok := b.params.Index.Get(key.uid, key.id); ok && !store {
		return s, completed, nil
	}
	if err := mirrors.Check(ctx, selected); err != nil {
		return Snapshot{}, completed, err
	}
	s, err := b.spool(ctx, mirrors, selected)
	if err == nil {
		b.remember(ctx, key, s)
	}
	return s, completed, mirrors.Absent(err)
}

// plan lists the leaves in the order of their names, and returns what of them was packed for charts.
// Submodules are walked after the repository itself, because only one mirror may be open; charts are
// completed after that.
func (b *Builder) plan(
	ctx context.Context, mirrors *leaves.Reader, f Folder, found charts.Artifacts,
) ([]leaves.Leaf, charts.Completion, error) {
	nothing := charts.Completion{}
	r, err := mirrors.Open(ctx, f.UID)
	if err != nil {
		return nil, nothing, err
	}
	tree, err := r.Tree(ctx, f.Commit, "")
	if err != nil {
		return nil, nothing, err
	}
	p := &planner{
		rules: b.rules, selection: f.Selection, maxFiles: b.params.Limits.Files,
		reader: r, place: &leaves.Place{UID: f.UID, Commit: f.Commit}, toVisit: b.params.Visits,
	}
	if err := p.walkAll(ctx, f.Selection.Start(), tree); err != nil {
		return nil, nothing, err
	}
	if err := (submoduleWalk{b.params.Submodules, mirrors, p}).run(ctx); err != nil {
		return nil, nothing, err
	}
	if p.reader, err = mirrors.Open(ctx, f.UID); err != nil {
		return nil, nothing, err
	}
	if err := p.checkEmpty(ctx, f.Commit); err != nil || !f.CompletesCharts {
		return p.selected, nothing, err
	}
	completed, err := b.charts.Complete(ctx, mirrors, charts.Bundle{
		UID: f.UID, Selection: f.Selection, Repositories: f.ChartRepositories,
		Leaves: p.selected, Visits: p.toVisit, Found: found,
	})
	if err != nil || len(completed.Added) == 0 {
		return p.selected, completed, err
	}
	p.selected = append(p.selected, completed.Added...)
	leaves.Sort(p.selected)
	return p.selected, completed, nil
}

// spool writes the bundle to a temporary file, because its digest, under which it is stored, is
// known only at the end.
func (b *Builder) spool(ctx context.Context, mirrors *leaves.Reader, all []leaves.Leaf) (Snapshot, error) {
	file, err := os.CreateTemp(b.params.TempDir, "bundle-")
	if err != nil {
		return Snapshot{}, fmt.Errorf("spool bundle: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	s, err := b.write(ctx, mirrors, all, file)
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
func (b *Builder) write(ctx context.Context, mirrors *leaves.Reader, all []leaves.Leaf, w io.Writer) (Snapshot, error) {
	compressed, err := b.compressor.Compress(w)
	if err != nil {
		return Snapshot{}, err
	}
	out := newPipeline(compressed)
	p := &packer{
		mirrors: mirrors, objects: objects{b.params.Objects, mirrors, b.params.Limits}, out: bundle.NewWriter(
			out, b.params.Limits,
		),
	}
	err = p.addAll(ctx, all)
	if err == nil {
		err = p.out.Close()
	}
	d, err := out.finish(err)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Digest: d, FileCount: len(all)}, nil
}
