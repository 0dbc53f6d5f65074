// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package casmem keeps blobs in memory. It behaves like casdisk in everything but surviving the
// process and evicting, and stands in for it in tests.
package casmem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// Config bounds a Store.
type Config struct {
	// MaxContentBytes bounds the decompressed size of one blob. Zero: cas.DefaultMaxContentBytes.
	MaxContentBytes int64
}

// Store is an in-memory [cas.Store].
type Store struct {
	cfg Config

	mu    sync.Mutex
	blobs map[digest.Digest]blob
	used  int64 // sum of the stored sizes
}

type blob struct {
	info  cas.Info
	bytes []byte // immutable
}

var _ cas.Store = (*Store)(nil)

// New returns an empty store.
func New(cfg Config) *Store {
	cfg.MaxContentBytes = cmp.Or(max(cfg.MaxContentBytes, 0), cas.DefaultMaxContentBytes)
	return &Store{cfg: cfg, blobs: map[digest.Digest]blob{}}
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
		if err != nil {
			return cas.Info{}, fmt.Errorf("put blob %s: %w", want, err)
		}
		s.add(blob{info: info, bytes: stored.bytes})
		return info, nil
	})
}

// add stores a blob, in place of any earlier one of that name.
func (s *Store) add(b blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += b.info.StoredSize - s.blobs[b.info.Digest].info.StoredSize
	s.blobs[b.info.Digest] = b
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

// Open implements [cas.Store].
func (s *Store) Open(_ context.Context, d digest.Digest) (*cas.Blob, error) {
	stored, err := s.find(d)
	if err != nil {
		return nil, fmt.Errorf("open blob %s: %w", d, err)
	}
	return &cas.Blob{Info: stored.info, ReadSeekCloser: reader{bytes.NewReader(stored.bytes)}}, nil
}

type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// Stat implements [cas.Store].
func (s *Store) Stat(_ context.Context, d digest.Digest) (cas.Info, error) {
	stored, err := s.find(d)
	if err != nil {
		return cas.Info{}, fmt.Errorf("stat blob %s: %w", d, err)
	}
	return stored.info, nil
}

func (s *Store) find(d digest.Digest) (blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.blobs[d]
	if !ok {
		return blob{}, cas.ErrNotFound
	}
	return stored, nil
}

// Delete implements [cas.Store].
func (s *Store) Delete(_ context.Context, d digest.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= s.blobs[d].info.StoredSize
	delete(s.blobs, d)
	return nil
}

// Usage implements [cas.Store].
func (s *Store) Usage(context.Context) (cas.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cas.Usage{Bytes: s.used, MaxBytes: math.MaxInt64, Blobs: len(s.blobs)}, nil
}
