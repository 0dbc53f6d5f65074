// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot turns a folder of a commit into a digest and a bundle.
//
// # Promises
//
// One selection of one commit has one digest, on every replica and for ever. A build reads at most
// Params.Visits entries of trees and stays within Params.Limits, whatever a repository holds;
// content that a bundle cannot carry is an error that names the path. Concurrent callers share a
// build, which continues when its first caller gives up.
//
// # How a digest is found
//
//  1. The outline, a hash over the ids of what a selection names, is read from a few trees. The id
//     of a Git tree changes exactly when its content does, so a commit that leaves the named folders
//     alone has the outline, and the digest, of the commit before.
//  2. Otherwise the leaves, the selected files, are listed. The [Index] knows digests by their ids,
//     too: a commit that changes nothing selected reads trees, and no files.
//  3. Otherwise the bundle is built: read from the mirrors, hashed and compressed to a temporary
//     file, and put into a content-addressed store. That store may drop it; it is then built again.
//
// Where a selected chart in Git lacks dependencies that it names, these are packed into its folder
// charts (package charts). An outline does not cover them: they are artifacts of other repositories, or
// folders that are not selected. So the outline of such a selection has no digest. It leads to a list
// of what the charts depend on, and the outline with what these are now leads to the digest.
//
// A build that needs something which is kept outside the mirror (blobs of a partial clone, objects
// of Git LFS, mirrors of submodules, dependencies of charts) ends with a [leaves.AbsentError] about
// all of that kind that it can see. These are fetched while no mirror is open and no other build is
// held up; then the build is tried again.
//
// # Concurrency
//
// A [Builder] may be used concurrently. It has no lock of its own: its caches, the group of builds
// and the Index have theirs, and none calls back. A build has at most one reader of a mirror open
// at a time, as package leaves explains. All types but Builder and Index are for one goroutine.
//
// The package fetches nothing itself, decides nothing about signatures, and knows no refs: a caller
// resolves a ref to a commit first.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/charts"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// Params are the parts of a [Builder]. All are required but those with a default.
type Params struct {
	Mirrors content.Opener
	// Objects are the objects of Git LFS. Nil: pointers are not supported.
	Objects Objects
	// Blobs fetches what partial mirrors lack. Nil: no mirror is partial.
	Blobs leaves.Blobs
	// Submodules are found here. Nil: they are not supported.
	Submodules Submodules
	// Charts finds what charts depend on. Nil: only dependencies in the same repository are packed.
	Charts charts.Finder
	Store  cas.Store
	Index  *Index
	Limits bundle.Limits // zero: bundle.DefaultLimits
	// Visits is how many entries of trees are visited for one bundle; zero: 1 000 000. Trees that hold
	// each other many times over make endless ones of a few bytes; where they are ignored, no other
	// limit stops the walk.
	Visits  int
	TempDir string // where bundles are spooled while their digest is not known
	Builds  int    // at once; zero: 2
	Logger  *slog.Logger
	Tracer  trace.Tracer
	Meter   metric.Meter
}

// Builder answers which digest a folder has, and opens bundles. Its methods may be called
// concurrently.
type Builder struct {
	params   Params
	mirrors  leaves.Mirrors
	charts   *charts.Completer
	building *semaphore.Weighted
	metrics  *metrics
	// Their entries never change; each drops the answers that were asked for longest ago.
	outlines outlines
	rules    rules
	refused  *lru.Cache[treeKey, error]
	// dependencies are the dependencies of selections with charts, by outline. Outlines without are
	// not here.
	dependencies *lru.Cache[treeKey, charts.Dependencies]

	compressor bundle.Compressor
	builds     *flight.Group[buildKey, Snapshot]
}

const (
	defaultBuilds  = 2
	defaultVisits  = 1_000_000
	buildTimeout   = 5 * time.Minute
	rememberFaults = 10_000
	// rememberDependencies bounds the selections with charts, and rememberWeight the bytes of each.
	rememberDependencies = 4096
	rememberWeight       = 16 << 10
)

// NewBuilder returns a Builder.
func NewBuilder(p Params) (*Builder, error) {
	p.Builds = cmp.Or(max(p.Builds, 0), defaultBuilds)
	p.Visits = cmp.Or(max(p.Visits, 0), defaultVisits)
	p.Limits = p.Limits.WithDefaults()
	m, err := newMetrics(p.Meter)
	if err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	mirrors := leaves.Mirrors{Opener: p.Mirrors, Blobs: p.Blobs, Submodules: p.Submodules, Charts: p.Charts}
	return &Builder{
		params: p, mirrors: mirrors, charts: &charts.Completer{Mirrors: mirrors, Finder: p.Charts, MaxFiles: p.Limits.Files},
		building: semaphore.NewWeighted(int64(p.Builds)), metrics: m,
		outlines: newOutlines(mirrors), rules: newRules(), refused: newCache[treeKey, error](rememberFaults),
		dependencies: newCache[treeKey, charts.Dependencies](rememberDependencies),
		builds:       flight.New[buildKey, Snapshot](buildTimeout),
	}, nil
}

// Resolve returns the snapshot of a selection: from memory where the content of what it names is
// known, else by building the bundle. Errors: content.ErrCommitNotFound, *content.PathError,
// *EmptyError, *leaves.UnsupportedError, *bundle.LimitError, *lfs.MissingError, *lfs.FileError,
// *submodule.NotReadyError, *submodule.UnavailableError, *chartdep.UnsupportedError,
// *chartdep.UnavailableError, *chartdep.FetchError, cas.ErrFull and what reading the mirror
// fails with.
func (b *Builder) Resolve(ctx context.Context, f Folder) (Snapshot, error) {
	started := time.Now()
	s, result, err := b.resolve(ctx, f)
	b.metrics.resolved(ctx, started, result)
	return s, err
}

// resolve is Resolve, and also returns how the answer was found.
func (b *Builder) resolve(ctx context.Context, f Folder) (s Snapshot, result string, err error) {
	id, err := b.outlines.of(ctx, f)
	if err != nil {
		return Snapshot{}, resolveFailed, err
	}
	s, isKnown, err := b.known(ctx, f, id)
	if err != nil {
		return Snapshot{}, resolveFailed, err
	}
	if isKnown {
		return s, resolveKnown, nil
	}
	if err, ok := b.refused.Get(id); ok {
		return Snapshot{}, resolveFailed, err
	}
	if s, err = b.build(ctx, f, buildKey{outline: id}); err != nil {
		return Snapshot{}, resolveFailed, err
	}
	return s, resolveBuilt, nil
}

// known returns the snapshot of an outline, where it is known: at once, or with what its charts depend
// on now.
func (b *Builder) known(ctx context.Context, f Folder, id treeKey) (s Snapshot, isKnown bool, err error) {
	if d, ok := b.dependencies.Get(id); ok {
		if id.id, err = b.charts.KeyNow(ctx, f.UID, f.Commit, id.id, d); err != nil {
			return Snapshot{}, false, err
		}
	}
	s, isKnown = b.params.Index.Get(id.uid, id.id)
	return s, isKnown, nil
}

// Open opens the bundle of a digest: the stored one, or one built again from the folder f, where
// f.Commit is not empty. ErrBundleNotFound: it is not stored, and f does not hold it. The caller
// closes the blob.
func (b *Builder) Open(ctx context.Context, d digest.Digest, f Folder) (*cas.Blob, error) {
	blob, err := b.params.Store.Open(ctx, d)
	if !errors.Is(err, cas.ErrNotFound) {
		return blob, err
	}
	if f.Commit == "" {
		return nil, fmt.Errorf("%w: %s", ErrBundleNotFound, d)
	}
	id, err := b.outlines.of(ctx, f)
	if err != nil {
		return nil, err
	}
	s, isKnown, err := b.known(ctx, f, id)
	if err != nil {
		return nil, err
	}
	if !isKnown || s.Digest == d {
		if s, err = b.build(ctx, f, buildKey{outline: id, store: true}); err != nil {
			return nil, err
		}
	}
	if s.Digest != d {
		return nil, fmt.Errorf("%w: the folder's digest is %s, want %s", ErrBundleNotFound, s.Digest, d)
	}
	return b.params.Store.Open(ctx, d)
}

// Stored opens a bundle only if it is stored here. ErrBundleNotFound: it is not.
func (b *Builder) Stored(ctx context.Context, d digest.Digest) (*cas.Blob, error) {
	blob, err := b.Open(ctx, d, Folder{})
	b.metrics.openedStored(ctx, err)
	return blob, err
}
