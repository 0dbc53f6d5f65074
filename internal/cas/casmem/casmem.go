// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package casmem keeps blobs in memory. It behaves like casdisk in everything but surviving the
// process, and stands in for it in tests.
package casmem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

const defaultMaxBytes = 1 << 30

// Config bounds a Store.
type Config struct {
	// MaxBytes bounds the sum of stored sizes. Zero: 1 GiB.
	MaxBytes int64
	// MaxContentBytes bounds the decompressed size of one blob. Zero: cas.DefaultMaxContentBytes.
	MaxContentBytes int64
	// Pinned reports whether a blob must not be evicted. It is called with the store locked, so it
	// must be quick and must not call the store. Nil: no blob is pinned.
	Pinned func(digest.Digest) bool
}

// Store is an in-memory [cas.Store].
type Store struct {
	cfg Config

	mu    sync.Mutex
	blobs *lru.LRU[digest.Digest, blob] // by when they were read
	used  int64                         // sum of the stored sizes
}

type blob struct {
	info  cas.Info
	bytes []byte // immutable
}

var _ cas.Store = (*Store)(nil)

// New returns an empty store.
func New(cfg Config) *Store {
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), defaultMaxBytes)
	cfg.MaxContentBytes = cmp.Or(max(cfg.MaxContentBytes, 0), cas.DefaultMaxContentBytes)
	if cfg.Pinned == nil {
		cfg.Pinned = func(digest.Digest) bool { return false }
	}
	blobs, _ := lru.NewLRU[digest.Digest, blob](math.MaxInt, nil) // fails for sizes below one only
	return &Store{cfg: cfg, blobs: blobs}
}

// Put implements [cas.Store].
func (s *Store) Put(ctx context.Context, want digest.Digest, r io.Reader) (cas.Info, error) {
	if info, err := s.Stat(ctx, want); err == nil {
		return info, nil
	}
	return s.Begin(want).Fill(ctx, r)
}

// Begin implements [cas.Store].
func (s *Store) Begin(want digest.Digest) *cas.Draft {
	return cas.NewDraft(func(ctx context.Context, r io.Reader, growth cas.Growth) (cas.Info, error) {
		stored := &growing{growth: growth}
		growth.Begin(stored)
		info, err := cas.Check(ctx, stored, r, want, s.cfg.MaxContentBytes)
		if err == nil {
			err = s.add(blob{info: info, bytes: stored.bytes})
		}
		if err != nil {
			return cas.Info{}, fmt.Errorf("put blob %s: %w", want, err)
		}
		return info, nil
	})
}

// add stores a blob, in place of any earlier one of that name.
func (s *Store) add(b blob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, replacing := s.blobs.Peek(b.info.Digest)
	s.remove(b.info.Digest)
	err := s.makeRoom(b.info.StoredSize)
	if err != nil && replacing {
		b = old
	}
	if err == nil || replacing {
		s.used += b.info.StoredSize
		s.blobs.Add(b.info.Digest, b)
	}
	return err
}

// growing is a blob that is being put.
type growing struct {
	growth cas.Growth

	mu    sync.RWMutex
	bytes []byte // only appended to
}

// Write implements io.Writer.
func (g *growing) Write(p []byte) (int, error) {
	g.mu.Lock()
	g.bytes = append(g.bytes, p...)
	g.mu.Unlock()
	g.growth.Add(len(p))
	return len(p), nil
}

// ReadAt implements io.ReaderAt.
func (g *growing) ReadAt(p []byte, offset int64) (int, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return bytes.NewReader(g.bytes).ReadAt(p, offset)
}

// Close implements io.Closer.
func (g *growing) Close() error { return nil }

// makeRoom evicts until size more bytes fit, or evicts nothing if that is not possible.
func (s *Store) makeRoom(size int64) error {
	var victims []digest.Digest
	free := s.cfg.MaxBytes - s.used
	for _, candidate := range s.blobs.Values() { // from the one that was read longest ago
		if free < size && !s.cfg.Pinned(candidate.info.Digest) {
			victims = append(victims, candidate.info.Digest)
			free += candidate.info.StoredSize
		}
	}
	if free < size {
		return fmt.Errorf("%w: %d of %d bytes used", cas.ErrFull, s.used, s.cfg.MaxBytes)
	}
	for _, victim := range victims {
		s.remove(victim)
	}
	return nil
}

func (s *Store) remove(d digest.Digest) {
	if old, ok := s.blobs.Peek(d); ok {
		s.used -= old.info.StoredSize
		s.blobs.Remove(d)
	}
}

// Open implements [cas.Store].
func (s *Store) Open(_ context.Context, d digest.Digest) (*cas.Blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.blobs.Get(d)
	if !ok {
		return nil, fmt.Errorf("open blob %s: %w", d, cas.ErrNotFound)
	}
	return &cas.Blob{Info: stored.info, ReadSeekCloser: reader{bytes.NewReader(stored.bytes)}}, nil
}

type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// Stat implements [cas.Store].
func (s *Store) Stat(_ context.Context, d digest.Digest) (cas.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.blobs.Peek(d)
	if !ok {
		return cas.Info{}, fmt.Errorf("stat blob %s: %w", d, cas.ErrNotFound)
	}
	return stored.info, nil
}

// Delete implements [cas.Store].
func (s *Store) Delete(_ context.Context, d digest.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(d)
	return nil
}

// Usage implements [cas.Store].
func (s *Store) Usage(context.Context) (cas.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cas.Usage{Bytes: s.used, MaxBytes: s.cfg.MaxBytes, Blobs: s.blobs.Len()}, nil
}
