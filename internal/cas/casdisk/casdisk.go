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
// A blob is written to tmp, synced, and renamed into place, so a file under blobs is whole unless the disk damaged it.
// Against that, the first Open of a blob that an earlier process wrote decompresses and hashes it; damage removes the file
// and looks like absence. The time of the last read is kept in the file's modification time, which makes the order of
// eviction survive a restart.
package casdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

const (
	defaultMaxBytes = 10 << 30
	// touchEvery limits how often reads of one blob write its modification time; eviction order after a restart is that
	// precise.
	touchEvery = time.Minute
)

// ErrInUse means that another process uses the folder.
var ErrInUse = errors.New("store folder is in use by another process")

// Config says where blobs are kept and how much.
type Config struct {
	// Dir is the folder; made if absent. It must be the store's alone, on a local file system. Required.
	Dir string
	// MaxBytes bounds the sum of the stored sizes, of blobs that are being written too. Files that were evicted while
	// somebody reads them use disk beyond it until they are closed. Zero: 10 GiB.
	MaxBytes int64
	// MaxContentBytes bounds the decompressed size of one blob. Zero: cas.DefaultMaxContentBytes.
	MaxContentBytes int64
	// Pinned tells which blobs must not be evicted. It is called with the store locked, so it must be quick and must not
	// call the store. Nil: none.
	Pinned func(digest.Digest) bool
	// Logger gets a warning for each damaged blob. Nil: none.
	Logger *slog.Logger
	// Hooks are called as things happen; for metrics and for tests.
	Hooks Hooks
}

// Hooks let others watch a Store, and let tests break it. Each may be nil. They may be called concurrently and with the
// store locked, so they must be quick and must not call the store.
type Hooks struct {
	// Evicted is called after a blob has been removed to make room.
	Evicted func(cas.Info)
	// Corrupt is called after a damaged blob has been removed.
	Corrupt func(digest.Digest, error)
	// Fault is called before each operation on the disk; an error it returns takes the place of the operation.
	Fault func(op Op, path string) error
}

// Op names an operation on the disk.
type Op string

// The operations that pass Hooks.Fault.
const (
	OpCreate  Op = "create"  // a temporary file
	OpWrite   Op = "write"   // a piece of a blob
	OpSync    Op = "sync"    // a blob's bytes
	OpRename  Op = "rename"  // into place
	OpSyncDir Op = "syncdir" // the folder that the blob was renamed into
	OpOpen    Op = "open"    // for reading
	OpRemove  Op = "remove"
	OpTouch   Op = "touch"
)

// Store is a [cas.Store] in a folder. Make one with [Open]; Close it after the last call.
type Store struct {
	cfg       Config
	index     *index // has its own lock
	verifying singleflight.Group
	lock      io.Closer
}

var _ cas.Store = (*Store)(nil)

// Open takes possession of the folder, clears what a crash left half-written, and lists the blobs it holds; it does not
// read them. The error is [ErrInUse] while another Store has the folder. Nothing is evicted before the first Put, so that
// whoever pins has the time to know what.
func Open(cfg Config) (*Store, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.MaxContentBytes <= 0 {
		cfg.MaxContentBytes = cas.DefaultMaxContentBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg}
	s.index = newIndex(cfg.MaxBytes, cfg.Pinned, s.evict)
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := lockFile(filepath.Join(s.cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", cfg.Dir, err)
	}
	s.lock = lock
	if err := errors.Join(s.sweep(), s.scan()); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), lock.Close())
	}
	return s, nil
}

// Close gives the folder up for another process. Open blobs stay readable.
func (s *Store) Close() error {
	return s.lock.Close()
}

// Open implements [cas.Store].
func (s *Store) Open(ctx context.Context, d digest.Digest) (*cas.Blob, error) {
	info, verified, ok := s.index.get(d)
	if !ok {
		return nil, fmt.Errorf("open blob %s: %w", d, cas.ErrNotFound)
	}
	if !verified {
		var err error
		if info, err = s.verifyOnce(ctx, info); err != nil {
			return nil, fmt.Errorf("open blob %s: %w", d, err)
		}
	}
	file, err := s.openFile(ctx, info)
	if err != nil {
		return nil, fmt.Errorf("open blob %s: %w", d, err)
	}
	s.touch(info)
	return &cas.Blob{Info: info, ReadSeekCloser: file}, nil
}

// openFile opens a blob's file. One that is gone or has another length than it had is dropped.
func (s *Store) openFile(ctx context.Context, info cas.Info) (*os.File, error) {
	path := s.path(info)
	if err := s.fault(OpOpen, path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		_ = s.index.remove(info, nil) // cannot fail without a function
		return nil, cas.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	stat, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if stat.Size() != info.StoredSize {
		s.dropCorrupt(ctx, info, fmt.Errorf("file has %d bytes, want %d", stat.Size(), info.StoredSize))
		return nil, errors.Join(cas.ErrNotFound, file.Close())
	}
	return file, nil
}

// touch makes the blob the last one to be evicted, now and, now and then, after a restart.
func (s *Store) touch(info cas.Info) {
	now := time.Now()
	if !s.index.touch(info.Digest, now) {
		return
	}
	path := s.path(info)
	if s.fault(OpTouch, path) == nil {
		// A failure costs only precision: after a restart the blob looks older than it is.
		_ = os.Chtimes(path, now, now)
	}
}

// Stat implements [cas.Store].
func (s *Store) Stat(_ context.Context, d digest.Digest) (cas.Info, error) {
	info, _, ok := s.index.get(d)
	if !ok {
		return cas.Info{}, fmt.Errorf("stat blob %s: %w", d, cas.ErrNotFound)
	}
	return info, nil
}

// Delete implements [cas.Store].
func (s *Store) Delete(_ context.Context, d digest.Digest) error {
	info, _, ok := s.index.get(d)
	if !ok {
		return nil
	}
	if err := s.index.remove(info, s.unlink); err != nil {
		return fmt.Errorf("delete blob %s: %w", d, err)
	}
	return nil
}

// Usage implements [cas.Store].
func (s *Store) Usage(context.Context) (cas.Usage, error) {
	return s.index.usage(), nil
}

func (s *Store) fault(op Op, path string) error {
	if s.cfg.Hooks.Fault == nil {
		return nil
	}
	return s.cfg.Hooks.Fault(op, path)
}
