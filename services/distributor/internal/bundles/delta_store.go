// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

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
	entries map[pair]*list.Element // of *deltaEntry
	recency *list.List             // of *deltaEntry, most recently used first
	used    int64
}

type deltaEntry struct {
	pair  pair
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
	return &deltaStore{
		dir: dir, maxBytes: cmp.Or(max(maxBytes, 0), defaultDeltaBytes), entries: map[pair]*list.Element{}, recency: list.New(),
	}, nil
}

func (s *deltaStore) path(p pair) string { return filepath.Join(s.dir, p.key()) }

// open opens a delta. isKnown reports whether the pair need not be tried: there is a delta, or it
// is known that there is none.
func (s *deltaStore) open(p pair) (delta *Delta, isKnown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	element, ok := s.entries[p]
	if !ok {
		return nil, false
	}
	entry := deltaOf(element)
	if entry.delta.Size == 0 {
		if !entry.until.IsZero() && time.Now().After(entry.until) {
			s.drop(element)
			return nil, false
		}
		s.recency.MoveToFront(element)
		return nil, true
	}
	file, err := os.Open(s.path(p))
	if err != nil { // removed, or no descriptors left: there is no delta for now
		if errors.Is(err, os.ErrNotExist) {
			s.drop(element)
		}
		return nil, !errors.Is(err, os.ErrNotExist)
	}
	s.recency.MoveToFront(element)
	found := entry.delta
	found.File = file
	return &found, true
}

func deltaOf(element *list.Element) *deltaEntry {
	return element.Value.(*deltaEntry) //nolint:errcheck // the list holds nothing else
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
	s.add(&deltaEntry{pair: p, delta: delta})
	_ = file.Close() // everything has been written, and nothing is promised about a crash
	return nil
}

// decline remembers that there is no delta, until then.
func (s *deltaStore) decline(p pair, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(&deltaEntry{pair: p, until: until})
}

func (s *deltaStore) add(entry *deltaEntry) {
	if old, ok := s.entries[entry.pair]; ok {
		s.used -= deltaOf(old).delta.Size
		s.recency.Remove(old)
	}
	s.entries[entry.pair] = s.recency.PushFront(entry)
	s.used += entry.delta.Size
	for s.used > s.maxBytes || len(s.entries) > maxDeltas {
		s.drop(s.recency.Back())
	}
}

// drop forgets a pair and removes its file.
func (s *deltaStore) drop(element *list.Element) {
	entry := deltaOf(element)
	s.recency.Remove(element)
	delete(s.entries, entry.pair)
	s.used -= entry.delta.Size
	if entry.delta.Size > 0 {
		_ = os.Remove(s.path(entry.pair)) // one that stays is overwritten, or removed at the next start
	}
}
