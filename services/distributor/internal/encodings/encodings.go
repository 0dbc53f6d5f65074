// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package encodings keeps bundles on the node's disk in other encodings than the one they are
// stored in, for clients that do not take zstd.
//
// Each is a file, so that it costs its making once, whatever the number of clients and however
// slowly they read, and so that it can be served in ranges and by the kernel. The files are made of
// what is in the cache of bundles: they are bounded, may be evicted at any time, need not be
// durable, and do not outlive the process.
package encodings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/flight"
)

const (
	defaultMaxBytes = 1 << 30
	// makers bounds how many files are made at once, each with some 17 MiB of memory and one
	// processor; others wait.
	makers = 2
	// makeTimeout bounds the making of one file, which outlives the caller that asked for it first.
	makeTimeout = 10 * time.Minute
	// openTries is how often a file is made again that was evicted before the caller came to open
	// it.
	openTries = 3
)

// Encoding says what a file holds.
type Encoding string

// The encodings.
const (
	// Plain is the canonical tar.
	Plain Encoding = "tar"
	// Gzip is the canonical tar, compressed with gzip. Equal content gives equal bytes, as long as
	// the compressor's version stays the same.
	Gzip Encoding = "gz"
)

// Config says where files are kept and how much.
type Config struct {
	// Dir is the folder; made if absent, and emptied. It must be the store's alone. Required.
	Dir string
	// MaxBytes bounds the sum of the sizes, with an upper bound for files that are being made.
	// Zero: 1 GiB.
	MaxBytes int64
}

// Source opens the stored bundle that a file is made of.
type Source func(ctx context.Context) (*cas.Blob, error)

// Store keeps the files. It is safe for concurrent use.
type Store struct {
	cfg    Config
	making *flight.Group[key, struct{}]
	slots  *semaphore.Weighted

	mu    sync.Mutex
	files *lru.LRU[key, entry] // by when they were opened
	used  int64                // bytes of files and of reservations
}

type key struct {
	digest   digest.Digest
	encoding Encoding
}

type entry struct {
	size int64
	sum  digest.Digest
}

// File is a file that is open for reading. It stays readable after it was evicted. Its owner closes
// it.
type File struct {
	*os.File

	// Size is the number of bytes.
	Size int64
	// Sum is the digest of the bytes themselves.
	Sum digest.Digest
}

// Open empties the folder.
func Open(cfg Config) (*Store, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if err := errors.Join(os.RemoveAll(cfg.Dir), os.MkdirAll(cfg.Dir, 0o700)); err != nil {
		return nil, fmt.Errorf("empty folder of encodings: %w", err)
	}
	files, err := lru.NewLRU[key, entry](math.MaxInt, nil) // bounded by their bytes
	return &Store{cfg: cfg, making: flight.New[key, struct{}](makeTimeout), slots: semaphore.NewWeighted(makers), files: files}, err
}

// Open opens the bundle d in an encoding, and makes the file of what source opens where there is
// none. Callers that miss the same file share one making, which goes on when they give up. Errors
// are those of source; digest.ErrMismatch and cas.ErrCorrupt when the bundle was damaged;
// cas.ErrFull; cas.ErrNotFound when the file was evicted before it could be opened; or the
// context's.
func (s *Store) Open(ctx context.Context, d digest.Digest, e Encoding, source Source) (*File, error) {
	k := key{digest: d, encoding: e}
	for range openTries {
		file, err := s.open(k)
		if !errors.Is(err, cas.ErrNotFound) {
			return file, err
		}
		_, err = s.making.Do(ctx, k, func(ctx context.Context) (struct{}, error) {
			if s.has(k) { // the last one to make it finished between open and here
				return struct{}{}, nil
			}
			return struct{}{}, s.make(ctx, k, source)
		})
		if err != nil {
			return nil, err
		}
	}
	return s.open(k)
}

// open opens a file that is there.
func (s *Store) open(k key) (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.files.Peek(k)
	if !ok {
		return nil, cas.ErrNotFound
	}
	file, err := os.Open(s.path(k))
	if errors.Is(err, fs.ErrNotExist) { // somebody else cleared the folder
		s.dropLocked(k, made)
		return nil, cas.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("open encoded bundle: %w", err)
	}
	s.files.Get(k) // it was used
	return &File{File: file, Size: made.size, Sum: made.sum}, nil
}

func (s *Store) has(k key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files.Contains(k)
}

// reserve counts n bytes that are about to be written, and evicts the files that were opened
// longest ago for them.
func (s *Store) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used+n > s.cfg.MaxBytes {
		if s.files.Len() == 0 {
			return fmt.Errorf("%w: %d of %d bytes used, %d needed", cas.ErrFull, s.used, s.cfg.MaxBytes, n)
		}
		if err := s.evictLocked(); err != nil {
			return err
		}
	}
	s.used += n
	return nil
}

// release gives back what reserve counted.
func (s *Store) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// publish moves a file to its place and lists it, instead of the reservation for it.
func (s *Store) publish(k key, e entry, path string, reserved int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(path, s.path(k)); err != nil {
		return err
	}
	s.files.Add(k, e)
	s.used += e.size - reserved
	return nil
}

// shed evicts everything, because the disk has no room, whatever the bound says.
func (s *Store) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.files.Len() > 0 && s.evictLocked() == nil {
	}
}

// evictLocked removes the file that was opened longest ago. Readers that have it open can continue.
func (s *Store) evictLocked() error {
	k, oldest, _ := s.files.GetOldest()
	if err := os.Remove(s.path(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("evict encoded bundle: %w", err)
	}
	s.dropLocked(k, oldest)
	return nil
}

func (s *Store) dropLocked(k key, e entry) {
	s.files.Remove(k)
	s.used -= e.size
}

// Usage returns how many bytes there are, those that are being written included.
func (s *Store) Usage() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *Store) path(k key) string {
	return filepath.Join(s.cfg.Dir, k.digest.Hex()+"."+string(k.encoding))
}
