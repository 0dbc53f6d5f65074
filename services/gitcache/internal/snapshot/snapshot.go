// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot turns a folder of a commit into a digest and a bundle.
//
// The id of a Git tree changes exactly when the folder's content does, so digests are remembered
// ([Index]) by the ids of what a selection names: a commit that leaves its folders alone costs no
// look at their files. One that changes them, but nothing that is selected, costs a look at their
// trees, because digests are remembered by the ids of the selected files too. The bundle itself
// lives in a content-addressed store, which may forget it; it is then built again from the mirror.
package snapshot

import (
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

// Snapshot describes a selection's canonical bundle.
type Snapshot struct {
	Digest      digest.Digest
	ContentSize int64
	StoredSize  int64
	FileCount   int
}

// Folder names what is selected of a commit.
type Folder struct {
	UID    string // the repository's
	Commit string
	// Repository and Epoch are its name and its owner's epoch, for traces alone.
	Repository string
	Epoch      uint64
	Selection  *selection.Selection
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
	Store      cas.Store
	Index      *Index
	Limits     bundle.Limits // zero: bundle.DefaultLimits
	// Visits is how many entries of trees are looked at for one bundle; zero: 1 000 000. Trees that
	// hold each other many times over make endless ones of a few bytes; where they are ignored, no
	// other limit stops the walk.
	Visits  int
	TempDir string        // where bundles are spooled while their digest is not known
	Builds  int           // at once; zero: 2
	Timeout time.Duration // of one build; zero: 5 min
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

	compressor bundle.Compressor
	builds     *flight.Group[buildKey, Snapshot]
}

// treeKey names content of one repository by a hash. Repositories do not share answers: SHA-1 is no
// longer strong enough to let one owner's objects speak for another's.
type treeKey struct{ uid, id string }

// outlineKey names a selection of a commit.
type outlineKey struct{ uid, commit, selection string }

const (
	defaultBuilds    = 2
	defaultVisits    = 1_000_000
	defaultTimeout   = 5 * time.Minute
	rememberOutlines = 100_000
	rememberFaults   = 10_000
)

// NewBuilder returns a Builder.
func NewBuilder(p Params) (*Builder, error) {
	if p.Builds <= 0 {
		p.Builds = defaultBuilds
	}
	if p.Visits <= 0 {
		p.Visits = defaultVisits
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	p.Limits = p.Limits.WithDefaults()
	m, err := newMetrics(p.Meter)
	if err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return &Builder{
		params: p, building: semaphore.NewWeighted(int64(p.Builds)), metrics: m,
		outlines: newCache[outlineKey, string](rememberOutlines), refused: newCache[treeKey, error](rememberFaults),
		rules:  newCache[treeKey, *ignore.Rules](rememberRules),
		builds: flight.New[buildKey, Snapshot](p.Timeout),
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
// *submodule.NotReadyError, *submodule.UnavailableError, cas.ErrFull and what reading the mirror
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
	if s, ok := b.params.Index.Get(id.uid, id.id); ok {
		return s, resolveKnown, nil
	}
	if err, ok := b.refused.Get(id); ok {
		return Snapshot{}, resolveFailed, err
	}
	s, err = b.build(ctx, f, buildKey{outline: id})
	return s, resultOf(err), err
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
	s, isKnown := b.params.Index.Get(id.uid, id.id)
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
