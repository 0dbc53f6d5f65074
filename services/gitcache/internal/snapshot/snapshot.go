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
//     too: a commit that changes nothing selected costs a look at trees, and none at files.
//  3. Otherwise the bundle is built: read from the mirrors, hashed and compressed to a temporary
//     file, and put into a content-addressed store. That store may drop it; it is then built again.
//
// Where a selected chart in Git lacks dependencies that it names, these are packed into its folder
// charts (charts.go). An outline does not cover them: they are artifacts of other repositories, or
// folders that are not selected. So the outline of such a selection has no digest. It leads to a list
// of what the charts depend on, and the outline with what these are now leads to the digest.
//
// A build that needs something which is kept outside the mirror (blobs of a partial clone, objects
// of Git LFS, mirrors of submodules, dependencies of charts) ends with an absentError, which lists
// all of that kind that it can see. These are fetched while no mirror is open and no other build is
// held up; then the build is tried again.
//
// # Concurrency
//
// A [Builder] may be used concurrently. It has no lock of its own: its caches, the group of builds
// and the Index have theirs, and none calls back. A build has at most one reader of a mirror open
// at a time, because readers are counted: builds that each held one and waited for another could
// wait for ever. All types but Builder and Index are for one goroutine.
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

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/flight"
	"github.com/leatdev/leat/internal/ignore"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
)

var (
	// ErrUnsupported is matched by every [*UnsupportedError].
	ErrUnsupported = errors.New("content not supported")
	// ErrBundleNotFound means that a digest is neither stored nor what the named folder holds.
	ErrBundleNotFound = errors.New("bundle not found")
)

// UnsupportedError names an entry of a folder that a bundle cannot carry. It matches
// [ErrUnsupported].
type UnsupportedError struct {
	Path   string // in the repository
	Reason string // a phrase that follows the path
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%v: %q %s", ErrUnsupported, e.Path, e.Reason)
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// EmptyError reports that ignore files and patterns leave nothing of a folder that is named. It
// matches [content.ErrPathNotFound].
type EmptyError struct{ Folder string }

// Error implements error.
func (e *EmptyError) Error() string { return fmt.Sprintf("nothing is selected of folder %q", e.Folder) }

// Is makes errors.Is(err, content.ErrPathNotFound) true.
func (e *EmptyError) Is(target error) bool { return target == content.ErrPathNotFound }

// Snapshot describes a selection's canonical bundle. Its JSON is part of an [Index].
type Snapshot struct {
	Digest      digest.Digest `json:"digest"`
	ContentSize int64         `json:"content"`
	StoredSize  int64         `json:"stored"`
	FileCount   int           `json:"files"`
}

// Folder names what is selected of a commit.
type Folder struct {
	UID string // the repository's
	// Commit is a commit's id or, of an artifact repository, the text of an artifact's id.
	Commit string
	// Repository and Epoch are its name and its owner's epoch, for traces alone.
	Repository string
	Epoch      uint64
	Selection  *selection.Selection
	// CompletesCharts packs the dependencies that charts lack; see [Charts]. It is for Git repositories:
	// the archive of a chart brings its dependencies.
	CompletesCharts bool
	// ChartRepositories are the names of the repositories that charts may take dependencies from.
	ChartRepositories upstream.List
}

// Params are what a [Builder] works with. All are required but those with a default.
type Params struct {
	Mirrors content.Opener
	// Objects are those of Git LFS. Nil: pointers are not supported.
	Objects Objects
	// Blobs fetches what partial mirrors lack. Nil: no mirror is partial.
	Blobs Blobs
	// Submodules are found here. Nil: they are not supported.
	Submodules Submodules
	// Charts finds what charts depend on. Nil: only dependencies in the same repository are packed.
	Charts Charts
	Store  cas.Store
	Index  *Index
	Limits bundle.Limits // zero: bundle.DefaultLimits
	// Visits is how many entries of trees are looked at for one bundle; zero: 1 000 000. Trees that
	// hold each other many times over make endless ones of a few bytes; where they are ignored, no
	// other limit stops the walk.
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
	building *semaphore.Weighted
	metrics  *metrics
	// What these remember never changes; each drops the answers that were asked for longest ago.
	outlines *lru.Cache[outlineKey, string]
	rules    *lru.Cache[treeKey, *ignore.Rules]
	refused  *lru.Cache[treeKey, error]
	// dependencies are those of selections with charts, by outline. Outlines without are not here.
	dependencies *lru.Cache[treeKey, dependencies]

	compressor bundle.Compressor
	builds     *flight.Group[buildKey, Snapshot]
}

// treeKey names content of one repository by a hash. Repositories do not share answers: SHA-1 is no
// longer strong enough to let one owner's objects speak for another's.
type treeKey struct{ uid, id string }

// outlineKey names a selection of a commit, with the rules for its charts.
type outlineKey struct{ uid, commit, selection, charts string }

// chartRules names the rules by which charts are completed.
func (f Folder) chartRules() string {
	if !f.CompletesCharts {
		return ""
	}
	return "complete\n" + string(f.ChartRepositories)
}

const (
	defaultBuilds    = 2
	defaultVisits    = 1_000_000
	buildTimeout     = 5 * time.Minute
	rememberOutlines = 100_000
	rememberFaults   = 10_000
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
	return &Builder{
		params: p, building: semaphore.NewWeighted(int64(p.Builds)), metrics: m,
		outlines: newCache[outlineKey, string](rememberOutlines), refused: newCache[treeKey, error](rememberFaults),
		rules: newCache[treeKey, *ignore.Rules](rememberRules), dependencies: newCache[treeKey, dependencies](rememberDependencies),
		builds: flight.New[buildKey, Snapshot](buildTimeout),
	}, nil
}

// newCache returns a cache of limit answers.
func newCache[K comparable, V any](limit int) *lru.Cache[K, V] {
	cache, _ := lru.New[K, V](limit) // fails only for a limit that is not positive
	return cache
}

// Resolve returns the snapshot of a selection: from memory where the content of what it names is
// known, else by building the bundle. Errors: content.ErrCommitNotFound, *content.PathError,
// *EmptyError, *UnsupportedError, *bundle.LimitError, *lfs.MissingError, *lfs.FileError,
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
	id, err := b.outlineOf(ctx, f)
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
		if id, err = b.completedNow(ctx, f, id, d); err != nil {
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
	id, err := b.outlineOf(ctx, f)
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
