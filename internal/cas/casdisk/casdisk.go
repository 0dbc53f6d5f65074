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
// whole unless the disk damaged it. Against that, the first Open of a blob that an earlier process
// wrote decompresses and hashes it, any Open does so that finds the file changed since, and
// scrubbing does it now and then; damage removes the file and looks like absence. What nobody can
// notice is a disk that begins to return other bytes between two such checks. Whoever receives a
// bundle therefore checks it again.
//
// The time of the last read is kept in the file's modification time, which makes the order of
// eviction survive a restart, and which tells that the file was changed when it is not what the
// store set.
package casdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

const defaultMaxBytes = 10 << 30

// ErrInUse means that another process uses the folder.
var ErrInUse = errors.New("store folder is in use by another process")

// Config says where blobs are kept and how much.
type Config struct {
	// Dir is the folder; made if absent. It must be the store's alone, on a local file system.
	// Required.
	Dir string
	// MaxBytes bounds the sum of the stored sizes, of blobs that are being written too. Files that
	// were evicted while somebody reads them use disk beyond it until they are closed. Zero: 10
	// GiB. Run begins to evict at 90 % of it, and goes on to 80 %.
	MaxBytes int64
	// MinFreeBytes is what Run leaves free of the file system, by evicting when there is less,
	// until there is twice as much. Zero: 1 GiB, or 5 % of the file system if that is less.
	// Negative: Run does not look.
	MinFreeBytes int64
	// MaxContentBytes bounds the decompressed size of one blob. Zero: cas.DefaultMaxContentBytes.
	MaxContentBytes int64
	// Pinned tells which blobs must not be evicted. It is called with the store locked, so it must
	// be quick and must not call the store. Nil: none.
	Pinned func(digest.Digest) bool
	// ScrubEvery is how often Run reads a blob again, give or take. Zero: 24 h.
	ScrubEvery time.Duration
	// ScrubRate bounds how many bytes it reads per second, give or take a quarter. Zero: 4 MiB.
	ScrubRate int64
	// Logger gets a warning for each damaged blob. Nil: none.
	Logger *slog.Logger
	// Hooks are called as things happen; for metrics and for tests.
	Hooks Hooks
}

// Hooks let others watch a Store, and let tests break it. Each may be nil. They may be called
// concurrently and with the store locked, so they must be quick and must not call the store.
type Hooks struct {
	// Evicted is called after a blob has been removed to make room.
	Evicted func(cas.Info)
	// Corrupt is called after a damaged blob has been removed.
	Corrupt func(digest.Digest, error)
	// Scrubbed is called after a blob has been read again and found right; StoredDigest may be
	// missing.
	Scrubbed func(cas.Info)
	// Fault is called before each operation on the disk; an error it returns takes the place of the
	// operation.
	Fault func(op Op, path string) error
	// Damage is given the bytes of each OpWrite, OpRead and OpServe, and returns those that take
	// their place: others, or fewer. It may change them where they are. The kernel's copies, see
	// cas.Blob, do not pass it.
	Damage func(op Op, path string, p []byte) []byte
	// Space takes the place of asking the file system how many bytes are free, and how many there
	// are in all.
	Space func() (free, total int64)
}

// Store is a [cas.Store] in a folder. Make one with [Open]; Close it after the last call.
type Store struct {
	cfg      Config
	disk     *disk
	index    *index // has its own lock
	checking singleflight.Group
	shards   sync.Map      // paths of the folders under blobs that are durable
	stored   chan struct{} // wakes keepRoom
	lock     io.Closer
}

var _ cas.Store = (*Store)(nil)

// Open takes possession of the folder, clears what a crash left half-written, and lists the blobs
// it holds; it does not read them. The error is [ErrInUse] while another Store has the folder.
// Nothing is evicted before the first Put, so that whoever pins has the time to know what.
func Open(cfg Config) (*Store, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.MaxContentBytes <= 0 {
		cfg.MaxContentBytes = cas.DefaultMaxContentBytes
	}
	if cfg.ScrubEvery <= 0 {
		cfg.ScrubEvery = defaultScrubEvery
	}
	if cfg.ScrubRate <= 0 {
		cfg.ScrubRate = defaultScrubRate
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := newStore(cfg)
	if err := s.disk.makeDirs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := s.disk.lock(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", cfg.Dir, err)
	}
	s.lock = lock
	if err := errors.Join(s.sweep(), s.scan()); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), lock.Close())
	}
	return s, nil
}

func newStore(cfg Config) *Store {
	s := &Store{cfg: cfg, disk: &disk{hooks: cfg.Hooks}, index: newIndex(cfg.MaxBytes, cfg.Pinned), stored: make(chan struct{}, 1)}
	s.index.path, s.index.unlink = s.path, s.disk.remove
	s.index.gone = func(info cas.Info) {
		if cfg.Hooks.Evicted != nil {
			cfg.Hooks.Evicted(info)
		}
	}
	return s
}

// Close gives the folder up for another process. Open blobs stay readable.
func (s *Store) Close() error {
	return s.lock.Close()
}

// Stat implements [cas.Store].
func (s *Store) Stat(_ context.Context, d digest.Digest) (cas.Info, error) {
	e, known, ok := s.index.get(d)
	if !ok {
		return cas.Info{}, fmt.Errorf("stat blob %s: %w", d, cas.ErrNotFound)
	}
	return e.describe(known), nil
}

// Delete implements [cas.Store].
func (s *Store) Delete(_ context.Context, d digest.Digest) error {
	e, _, ok := s.index.get(d)
	if !ok {
		return nil
	}
	if err := s.index.remove(e); err != nil {
		return fmt.Errorf("delete blob %s: %w", d, err)
	}
	return nil
}

// Usage implements [cas.Store].
func (s *Store) Usage(context.Context) (cas.Usage, error) {
	return s.index.usage(), nil
}
