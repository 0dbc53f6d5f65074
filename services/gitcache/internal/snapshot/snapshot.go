// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot turns a folder of a commit into a digest and a bundle.
//
// The id of a Git tree changes exactly when the folder's content does, so it is the key under which a digest is remembered
// ([Index]): a commit that leaves a folder alone costs no look at its files. The bundle itself lives in a
// content-addressed store, which may forget it; it is then built again from the mirror.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

var (
	// ErrUnsupported is matched by every [*UnsupportedError].
	ErrUnsupported = errors.New("content not supported")
	// ErrBundleNotFound means that a digest is neither stored nor what the named folder holds.
	ErrBundleNotFound = errors.New("bundle not found")
)

// UnsupportedError tells what in a folder a bundle cannot carry. It matches [ErrUnsupported].
type UnsupportedError struct {
	Path   string // below the bundled folder
	Reason string // a phrase that follows the path
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%v: %q %s", ErrUnsupported, e.Path, e.Reason)
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Snapshot describes a folder's canonical bundle.
type Snapshot struct {
	Digest      digest.Digest
	ContentSize int64
	StoredSize  int64
	FileCount   int
}

// Folder names a folder of a commit.
type Folder struct {
	UID    string // the repository's
	Commit string
	// Path is the folder of interest; it must exist. Root is the folder that is bundled, Path itself or one above. Both
	// as content.CleanFolder returns them.
	Path, Root string
}

// Params are what a [Builder] works with. All are required but those with a default.
type Params struct {
	Mirrors content.Opener
	Store   cas.Store
	Index   *Index
	Limits  bundle.Limits // zero: bundle.DefaultLimits
	TempDir string        // where bundles are spooled while their digest is not known
	Builds  int           // at once; zero: 2
	Timeout time.Duration // of one build; zero: 5 min
	Logger  *slog.Logger
	Tracer  trace.Tracer
	Meter   metric.Meter
}

// Builder answers which digest a folder has, and opens bundles. Its methods may be called concurrently.
type Builder struct {
	params   Params
	building *semaphore.Weighted
	duration metric.Float64Histogram

	compressor bundle.Compressor
	trees      *recent[treeKey, string]
	refused    *recent[treeKey, error]

	mu      sync.Mutex
	flights map[treeKey]*flight
}

// treeKey names a tree of one repository, or a folder of a commit. Repositories do not share answers: SHA-1 is no longer
// strong enough to let one owner's objects speak for another's.
type treeKey struct{ uid, id, path string }

const (
	defaultBuilds  = 2
	defaultTimeout = 5 * time.Minute
	rememberTrees  = 100_000
	rememberFaults = 10_000
)

// NewBuilder returns a Builder.
func NewBuilder(p Params) (*Builder, error) {
	if p.Builds <= 0 {
		p.Builds = defaultBuilds
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	duration, err := p.Meter.Float64Histogram("leat.bundle.build.duration", metric.WithUnit("s"),
		metric.WithDescription("Time it took to build a bundle from a mirror."))
	if err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return &Builder{
		params: p, building: semaphore.NewWeighted(int64(p.Builds)), duration: duration,
		trees: newRecent[treeKey, string](rememberTrees), refused: newRecent[treeKey, error](rememberFaults),
		flights: map[treeKey]*flight{},
	}, nil
}

// Resolve returns the snapshot of a folder: from memory where the folder's tree is known, else by building the bundle.
// Errors: content.ErrCommitNotFound, *content.PathError, *UnsupportedError, *bundle.LimitError, cas.ErrFull and what
// reading the mirror fails with.
func (b *Builder) Resolve(ctx context.Context, f Folder) (Snapshot, error) {
	tree, err := b.rootTree(ctx, f)
	if err != nil {
		return Snapshot{}, err
	}
	key := treeKey{uid: f.UID, id: tree}
	if s, ok := b.params.Index.Get(f.UID, tree); ok {
		return s, nil
	}
	if err, ok := b.refused.get(key); ok {
		return Snapshot{}, err
	}
	return b.build(ctx, key)
}

// Open opens the bundle of a digest: the stored one, or one built again from the folder f, where f.Commit is not empty.
// ErrBundleNotFound: it is not stored, and f does not hold it. The caller closes the blob.
func (b *Builder) Open(ctx context.Context, d digest.Digest, f Folder) (*cas.Blob, error) {
	blob, err := b.params.Store.Open(ctx, d)
	if !errors.Is(err, cas.ErrNotFound) {
		return blob, err
	}
	if f.Commit == "" {
		return nil, fmt.Errorf("%w: %s", ErrBundleNotFound, d)
	}
	tree, err := b.rootTree(ctx, f)
	if err != nil {
		return nil, err
	}
	if known, ok := b.params.Index.Get(f.UID, tree); ok && known.Digest != d {
		return nil, fmt.Errorf("%w: the folder's digest is %s, want %s", ErrBundleNotFound, known.Digest, d)
	}
	built, err := b.build(ctx, treeKey{uid: f.UID, id: tree})
	if err != nil {
		return nil, err
	}
	if built.Digest != d {
		return nil, fmt.Errorf("%w: the folder's digest is %s, want %s", ErrBundleNotFound, built.Digest, d)
	}
	return b.params.Store.Open(ctx, d)
}

// Stored opens a bundle only if it is stored here. ErrBundleNotFound: it is not.
func (b *Builder) Stored(ctx context.Context, d digest.Digest) (*cas.Blob, error) {
	return b.Open(ctx, d, Folder{})
}

// rootTree returns the id of the bundled folder's tree, after making sure that the folder of interest exists too.
func (b *Builder) rootTree(ctx context.Context, f Folder) (string, error) {
	root := treeKey{f.UID, f.Commit, f.Root}
	path := treeKey{f.UID, f.Commit, f.Path}
	tree, known := b.trees.get(root)
	if _, checked := b.trees.get(path); known && checked {
		return tree, nil
	}
	r, err := b.params.Mirrors.Open(ctx, f.UID)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	for _, key := range []treeKey{path, root} {
		if tree, err = r.Tree(ctx, key.id, key.path); err != nil {
			return "", err
		}
		b.trees.put(key, tree)
	}
	return tree, nil
}
