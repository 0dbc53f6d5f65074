// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package casdisk keeps blobs in a folder of a local disk.
//
// The folder holds
//
//	lock                                held by the process that uses the folder
//	tmp/                                blobs being written; emptied at Open
//	blobs/ab/abcd….1234                 one file per blob: its digest, and its content's size in bytes
//
// A blob is written to tmp, synced, read back, and renamed into place, so a file under blobs is
// whole unless the disk damaged it. To detect damage, the first Open of a blob that an earlier
// process wrote decompresses and hashes it, as does every Open that finds the file changed since,
// and periodic scrubbing. A damaged file is removed, and looks absent to callers. A disk that
// begins to return other bytes between two such checks goes unnoticed, so the receiver of a bundle
// verifies it again.
//
// The time of the last read is kept as the file's modification time. The order of eviction
// therefore survives a restart, and a modification time that the store did not set shows that the
// file was changed.
//
// # States
//
// A blob is a draft while Put writes it: room is reserved, and a crash loses it. Published, it is
// listed by the index, and either proven, which this process has verified, or unproven, left by an
// earlier process or changed since. Evicted, deleted or damaged, it is no longer listed; readers
// that have it open can continue. A file that could not be removed then is litter: it counts as
// used until a later try removes it.
//
// # Locks
//
// The index, which is package blobindex's, has the only lock. It is held while a file is renamed into
// place, removed or touched, so that the list and the folder change together, but never while content
// is read or written. Hooks and Config.Pinned may be called under it.
//
// The package retries no failing disk, and keeps no blob that its bound has no room for.
package casdisk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk/blobindex"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/internal/kit/wake"
)

const (
	defaultMaxBytes   = 10 << 30
	defaultScrubEvery = 24 * time.Hour
	defaultScrubRate  = 4 << 20
)

// Config sets where blobs are kept and how many.
type Config struct {
	// Dir is the folder; it is created if absent. It must be the store's alone, on a local file
	// system. Required.
	Dir string
	// MaxBytes bounds the sum of the stored sizes, including blobs that are being written. Files
	// that were evicted while they are being read use disk beyond it until they are closed. Run
	// begins to evict at 90 % of it, and stops at 80 %. Zero: 10 GiB.
	MaxBytes int64
	// MinFreeBytes is how much of the file system Run keeps free. When less is free, Run evicts
	// until twice as much is. Zero: 1 GiB, or 5 % of the file system if that is less. Negative: Run
	// does not check.
	MinFreeBytes int64
	// MaxContentBytes bounds the decompressed size of one blob. Zero: cas.DefaultMaxContentBytes.
	MaxContentBytes int64
	// Pinned reports whether a blob must not be evicted. It is called with the store locked, so it
	// must be quick and must not call the store. Nil: no blob is pinned.
	Pinned func(digest.Digest) bool
	// ScrubEvery is roughly how often Run reads a blob again. Zero: 24 h.
	ScrubEvery time.Duration
	// ScrubRate bounds how many bytes a second scrubbing reads, within a quarter. Zero: 4 MiB.
	ScrubRate int64
	// Logger receives a warning for each damaged blob. Nil: damage is not logged.
	Logger *slog.Logger
	// Hooks are called as things happen, for metrics and for tests.
	Hooks Hooks
}

// Store is a [cas.Store] in a folder. Make one with [Open]; Close it after the last call.
type Store struct {
	cfg      Config
	disk     *disk
	folder   *folder
	index    *blobindex.Index // has its own lock
	checking *flight.Group[digest.Digest, struct{}]
	shards   sync.Map    // paths of the folders under blobs that are durable
	stored   wake.Signal // wakes keepRoom
	lock     io.Closer
}

var _ cas.Store = (*Store)(nil)

// Open takes possession of the folder, clears what a crash left half-written, and lists the blobs
// it holds without reading them. The error is [ErrInUse] while another Store has the folder.
// Nothing is evicted before the first Put, so the owner has time to decide which blobs to pin.
func Open(cfg Config) (*Store, error) {
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), defaultMaxBytes)
	cfg.MaxContentBytes = cmp.Or(max(cfg.MaxContentBytes, 0), cas.DefaultMaxContentBytes)
	cfg.ScrubEvery = cmp.Or(max(cfg.ScrubEvery, 0), defaultScrubEvery)
	cfg.ScrubRate = cmp.Or(max(cfg.ScrubRate, 0), defaultScrubRate)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := newStore(cfg)
	if err := s.disk.makeDirs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := s.disk.lock(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", cfg.Dir, err)
	}
	s.lock = lock
	swept := s.folder.sweep()
	left, err := s.folder.scan()
	if err = errors.Join(swept, err); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), lock.Close())
	}
	for _, e := range left {
		s.index.Adopt(e)
	}
	return s, nil
}

func newStore(cfg Config) *Store {
	files := &disk{hooks: cfg.Hooks}
	kept := &folder{dir: cfg.Dir, disk: files, logger: cfg.Logger}
	return &Store{
		cfg: cfg, disk: files, folder: kept, stored: wake.NewSignal(), checking: flight.New[digest.Digest, struct{}](0),
		index: blobindex.New(blobindex.Config{
			Limit: cfg.MaxBytes, Pinned: cfg.Pinned, Path: kept.path, Unlink: files.remove, Evicted: func(info cas.Info) {
				if cfg.Hooks.Evicted != nil {
					cfg.Hooks.Evicted(info)
				}
			},
		}),
	}
}

// Close releases the folder for another process. Open blobs stay readable.
func (s *Store) Close() error {
	return s.lock.Close()
}

// Stat implements [cas.Store].
func (s *Store) Stat(_ context.Context, d digest.Digest) (cas.Info, error) {
	e, known, ok := s.index.Get(d)
	if !ok {
		return cas.Info{}, fmt.Errorf("stat blob %s: %w", d, cas.ErrNotFound)
	}
	return e.Describe(known), nil
}

// Delete implements [cas.Store].
func (s *Store) Delete(_ context.Context, d digest.Digest) error {
	e, _, ok := s.index.Get(d)
	if !ok {
		return nil
	}
	if err := s.index.Remove(e); err != nil {
		return fmt.Errorf("delete blob %s: %w", d, err)
	}
	return nil
}

// Usage implements [cas.Store].
func (s *Store) Usage(context.Context) (cas.Usage, error) {
	return s.index.Usage(), nil
}
