// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package scratch keeps files that can be made again at any time. They are bounded in bytes and in
// number, and the least recently opened ones are removed first. Nothing survives a restart, so
// nothing is synced or verified.
//
// The lock of a folder is held while a file is opened, moved to its place or removed, so listed
// files exist, unless another program clears the folder. A file that a reader has open stays
// readable after its eviction.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/leatdev/leat/internal/contract/cas"
)

// Key names a file. Different keys have different names.
type Key interface {
	comparable
	Name() string
}

// Folder holds a file for each key, with a note about it. It is safe for concurrent use.
type Folder[K Key, N any] struct {
	dir      string
	maxBytes int64
	maxFiles int

	mu    sync.Mutex
	files *lru.LRU[K, entry[N]] // by when they were opened
	used  int64                 // bytes of files and of reservations
}

type entry[N any] struct {
	size int64
	note N
}

// Open empties the folder, which must hold nothing else, and makes it if it does not exist.
func Open[K Key, N any](dir string, maxBytes int64, maxFiles int) (*Folder[K, N], error) {
	files, _ := lru.NewLRU[K, entry[N]](maxFiles, nil) // fails only for a limit that is not positive
	err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
	return &Folder[K, N]{dir: dir, maxBytes: maxBytes, maxFiles: maxFiles, files: files}, err
}

// Create makes a file outside the bounds, for Put. The caller removes it if it is not put.
func (f *Folder[K, N]) Create() (*os.File, error) { return os.CreateTemp(f.dir, "new-*") }

// Open opens a key's file, which counts as its use, and returns its size and note. The error matches
// cas.ErrNotFound if there is none.
func (f *Folder[K, N]) Open(key K) (file *os.File, size int64, note N, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	made, ok := f.files.Peek(key)
	if !ok {
		return nil, 0, note, cas.ErrNotFound
	}
	file, err = os.Open(f.path(key))
	if errors.Is(err, fs.ErrNotExist) { // another program cleared the folder
		f.dropLocked(key, made)
		return nil, 0, note, cas.ErrNotFound
	}
	if err != nil {
		return nil, 0, note, err
	}
	f.files.Get(key) // it was used
	return file, made.size, made.note, nil
}

// Has reports whether there is a file for the key. This is not a use of it.
func (f *Folder[K, N]) Has(key K) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files.Contains(key)
}

// Reserve counts bytes that are about to be written, and evicts files for them. The error matches
// cas.ErrFull if there is no room without them.
func (f *Folder[K, N]) Reserve(bytes int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reserveLocked(bytes)
}

func (f *Folder[K, N]) reserveLocked(bytes int64) error {
	for f.used+bytes > f.maxBytes {
		if f.files.Len() == 0 || bytes > f.maxBytes {
			return fmt.Errorf("%w: %d of %d bytes used, %d needed", cas.ErrFull, f.used, f.maxBytes, bytes)
		}
		if err := f.evictLocked(); err != nil {
			return err
		}
	}
	f.used += bytes
	return nil
}

// Release gives back what Reserve counted.
func (f *Folder[K, N]) Release(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used -= bytes
}

// Put moves a complete file to its place, instead of a reservation for it or of zero bytes. It
// replaces the key's earlier file. With an error the reservation stays.
func (f *Folder[K, N]) Put(key K, path string, size int64, note N, reserved int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.reserveLocked(size - reserved); err != nil {
		return err
	}
	err := os.Rename(path, f.path(key))
	if old, isThere := f.files.Peek(key); err == nil && isThere {
		f.dropLocked(key, old)
	}
	if err == nil && f.files.Len() >= f.maxFiles {
		err = f.evictLocked()
	}
	if err != nil {
		f.used -= size - reserved
		return err
	}
	f.files.Add(key, entry[N]{size, note})
	return nil
}

// Shed evicts everything, because the disk has no room, regardless of the bound.
func (f *Folder[K, N]) Shed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.files.Len() > 0 && f.evictLocked() == nil {
	}
}

// Usage returns the bytes of files and of reservations.
func (f *Folder[K, N]) Usage() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// evictLocked removes the file that was opened longest ago.
func (f *Folder[K, N]) evictLocked() error {
	key, oldest, _ := f.files.GetOldest()
	if err := os.Remove(f.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("evict file: %w", err)
	}
	f.dropLocked(key, oldest)
	return nil
}

func (f *Folder[K, N]) dropLocked(key K, e entry[N]) {
	f.files.Remove(key)
	f.used -= e.size
}

func (f *Folder[K, N]) path(key K) string { return filepath.Join(f.dir, key.Name()) }
