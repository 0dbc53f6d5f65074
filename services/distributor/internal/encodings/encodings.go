// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package encodings keeps bundles on the node's disk in other encodings than the one they are stored in, for clients that
// do not take zstd.
//
// Each is a file, so that it costs its making once, whatever the number of clients and however slowly they read, and so that
// it can be served in ranges and by the kernel. The files are made of what is in the cache of bundles: they are bounded, may
// be evicted at any time, need not be durable, and do not outlive the process.
package encodings

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

const (
	defaultMaxBytes = 1 << 30
	// makers bounds how many files are made at once, each with some 17 MiB of memory and one processor; others wait.
	makers = 2
	// makeTimeout bounds the making of one file, which outlives the caller that asked for it first.
	makeTimeout = 10 * time.Minute
	// openTries is how often a file is made again that was evicted before the caller came to open it.
	openTries = 3
)

// Encoding says what a file holds.
type Encoding string

// The encodings.
const (
	// Plain is the canonical tar.
	Plain Encoding = "tar"
	// Gzip is the canonical tar, compressed with gzip. Equal content gives equal bytes, as long as the compressor's version
	// stays the same.
	Gzip Encoding = "gz"
)

// Config says where files are kept and how much.
type Config struct {
	// Dir is the folder; made if absent, and emptied. It must be the store's alone. Required.
	Dir string
	// MaxBytes bounds the sum of the sizes, with an upper bound for files that are being made. Zero: 1 GiB.
	MaxBytes int64
}

// Source opens the stored bundle that a file is made of.
type Source func(ctx context.Context) (*cas.Blob, error)

// Store keeps the files. It is safe for concurrent use.
type Store struct {
	cfg    Config
	making singleflight.Group
	slots  *semaphore.Weighted

	mu      sync.Mutex
	files   map[key]*list.Element // of *entry
	recency *list.List            // of *entry, the last opened one in front
	used    int64                 // bytes of files and of reservations
}

type key struct {
	digest   digest.Digest
	encoding Encoding
}

type entry struct {
	key  key
	size int64
	sum  digest.Digest
}

// File is a file that is open for reading. It stays readable after it was evicted. Its owner closes it.
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
	return &Store{
		cfg: cfg, slots: semaphore.NewWeighted(makers),
		files: make(map[key]*list.Element), recency: list.New(),
	}, nil
}

// Open opens the bundle d in an encoding, and makes the file of what source opens where there is none. Callers that miss the
// same file share one making, which goes on when they give up. Errors are those of source; digest.ErrMismatch and
// cas.ErrCorrupt when the bundle was damaged; cas.ErrFull; cas.ErrNotFound when the file was evicted before it could be
// opened; or the context's.
func (s *Store) Open(ctx context.Context, d digest.Digest, e Encoding, source Source) (*File, error) {
	k := key{digest: d, encoding: e}
	for range openTries {
		file, err := s.open(k)
		if !errors.Is(err, cas.ErrNotFound) {
			return file, err
		}
		made := s.making.DoChan(s.path(k), func() (any, error) {
			if s.has(k) { // the last one to make it finished between open and here
				return nil, nil
			}
			return nil, s.make(context.WithoutCancel(ctx), k, source)
		})
		select {
		case result := <-made:
			if result.Err != nil {
				return nil, result.Err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return s.open(k)
}

// open opens a file that is there.
func (s *Store) open(k key) (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	element, ok := s.files[k]
	if !ok {
		return nil, cas.ErrNotFound
	}
	file, err := os.Open(s.path(k))
	if errors.Is(err, fs.ErrNotExist) { // somebody else cleared the folder
		s.drop(element)
		return nil, cas.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("open encoded bundle: %w", err)
	}
	s.recency.MoveToFront(element)
	return &File{File: file, Size: of(element).size, Sum: of(element).sum}, nil
}

func (s *Store) has(k key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[k]
	return ok
}

// reserve counts n bytes that are about to be written, and evicts the files that were opened longest ago for them.
func (s *Store) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used+n > s.cfg.MaxBytes {
		if s.recency.Len() == 0 {
			return fmt.Errorf("%w: %d of %d bytes used, %d needed", cas.ErrFull, s.used, s.cfg.MaxBytes, n)
		}
		if err := s.evict(s.recency.Back()); err != nil {
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
func (s *Store) publish(e *entry, path string, reserved int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(path, s.path(e.key)); err != nil {
		return err
	}
	s.files[e.key] = s.recency.PushFront(e)
	s.used += e.size - reserved
	return nil
}

// shed evicts everything, because the disk has no room, whatever the bound says.
func (s *Store) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.recency.Len() > 0 && s.evict(s.recency.Back()) == nil {
	}
}

// evict removes a file, which others may go on reading if they have it open. The store is locked.
func (s *Store) evict(element *list.Element) error {
	if err := os.Remove(s.path(of(element).key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("evict encoded bundle: %w", err)
	}
	s.drop(element)
	return nil
}

func (s *Store) drop(element *list.Element) {
	s.recency.Remove(element)
	delete(s.files, of(element).key)
	s.used -= of(element).size
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

func of(element *list.Element) *entry {
	return element.Value.(*entry) //nolint:errcheck // the list holds nothing else
}
