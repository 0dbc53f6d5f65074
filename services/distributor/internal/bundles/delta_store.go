// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/leatdev/leat/internal/digest"
)

const (
	defaultDeltaBytes = 512 << 20
	// maxDeltas bounds how many pairs are known, those without a delta included.
	maxDeltas = 10_000
)

// Delta is a delta that is open for reading: a zstd stream from its first byte. It stays readable
// after its eviction.
type Delta struct {
	*os.File

	// Tag is its ETag, made of its bytes.
	Tag string
	// Size is its length; Full is that of the bundle it leads to, compressed, which is larger.
	Size, Full int64
}

// pair is where a delta leads from and to.
type pair struct {
	from, to digest.Digest
}

func (p pair) key() string { return p.from.Hex() + "-" + p.to.Hex() }

// errNotSmaller ends the building of a delta that is not smaller than the bundle.
var errNotSmaller = errors.New("delta is not smaller than the bundle")

// deltaStore keeps deltas as files, and remembers for which pairs there is none. It is bounded in
// bytes and in number, and evicts the pairs first that were asked for longest ago. Nothing survives
// a restart, so nothing is synced or verified.
type deltaStore struct {
	dir      string
	maxBytes int64

	mu      sync.Mutex
	entries *lru.LRU[pair, deltaEntry]
	used    int64 // bytes of all deltas
}

type deltaEntry struct {
	delta Delta     // without a file; Size 0: there is none
	until time.Time // when to try again; zero: never
}

// openDeltaStore empties the folder.
func openDeltaStore(dir string, maxBytes int64) (*deltaStore, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &deltaStore{dir: dir, maxBytes: cmp.Or(max(maxBytes, 0), defaultDeltaBytes)}
	var err error
	s.entries, err = lru.NewLRU(maxDeltas, s.dropped)
	return s, err
}

func (s *deltaStore) path(p pair) string { return filepath.Join(s.dir, p.key()) }

// open opens a delta. isKnown reports whether the pair need not be tried: there is a delta, or it
// is known that there is none.
func (s *deltaStore) open(p pair) (delta *Delta, isKnown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entries.Peek(p)
	if !ok {
		return nil, false
	}
	if entry.delta.Size == 0 {
		if !entry.until.IsZero() && time.Now().After(entry.until) {
			s.entries.Remove(p)
			return nil, false
		}
		s.entries.Get(p) // it was used
		return nil, true
	}
	file, err := os.Open(s.path(p))
	if err != nil { // removed, or no descriptors left: there is no delta for now
		if errors.Is(err, os.ErrNotExist) {
			s.entries.Remove(p)
		}
		return nil, !errors.Is(err, os.ErrNotExist)
	}
	s.entries.Get(p) // it was used
	found := entry.delta
	found.File = file
	return &found, true
}

// create makes a file for a delta that is being written.
func (s *deltaStore) create() (*os.File, error) {
	file, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return nil, fmt.Errorf("create delta: %w", err)
	}
	return file, nil
}

// put moves a complete file to its place and makes room for it.
func (s *deltaStore) put(p pair, file *os.File, delta Delta) error {
	if delta.Size > s.maxBytes {
		return errNotSmaller
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(file.Name(), s.path(p)); err != nil {
		return fmt.Errorf("store delta: %w", err)
	}
	s.addLocked(p, deltaEntry{delta: delta})
	_ = file.Close() // everything has been written, and nothing is promised about a crash
	return nil
}

// decline remembers that there is no delta, until then.
func (s *deltaStore) decline(p pair, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(p, deltaEntry{until: until})
}

// addLocked takes the place of what was known of the pair, whose file has been overwritten.
func (s *deltaStore) addLocked(p pair, entry deltaEntry) {
	old, _ := s.entries.Peek(p)
	s.used += entry.delta.Size - old.delta.Size
	s.entries.Add(p, entry)
	for s.used > s.maxBytes {
		s.entries.RemoveOldest()
	}
}

// dropped removes the file of a pair that has left the entries. The caller holds the lock.
func (s *deltaStore) dropped(p pair, entry deltaEntry) {
	s.used -= entry.delta.Size
	if entry.delta.Size > 0 {
		_ = os.Remove(s.path(p)) // one that stays is overwritten, or removed at the next start
	}
}
