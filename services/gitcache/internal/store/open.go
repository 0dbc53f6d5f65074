// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/history"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// reader keeps the generation it reads from being removed.
type reader struct {
	content.Reader
	release func()
}

// Open implements [content.Opener]. ErrNoMirror from package mirror: there is nothing to read.
func (s *Store) Open(ctx context.Context, uid string) (content.Reader, error) {
	if err := s.readers.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	dir, ok := s.enter(uid)
	if !ok {
		s.readers.Release(1)
		return nil, mirror.ErrNoMirror
	}
	release := func() {
		s.leave(context.WithoutCancel(ctx), dir)
		s.readers.Release(1)
	}
	r, err := s.Objects(dir)
	if err != nil {
		release()
		return nil, err
	}
	return reader{Reader: r, release: release}, nil
}

// Objects opens the bare repository in dir, such as that of a draft, for reading. It is not counted
// among the readers.
func (s *Store) Objects(dir string) (*history.Reader, error) {
	partial, err := isPartial(dir)
	if err != nil {
		return nil, err
	}
	return history.Open(dir, history.Params{Partial: partial, Large: func(ctx context.Context, id string) (content.File, error) {
		return s.large(ctx, dir, id)
	}})
}

// Close implements [content.Reader].
func (r reader) Close() error {
	defer r.release()
	return r.Reader.Close()
}

func (s *Store) enter(uid string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, ok := s.current[uid]
	if ok {
		s.reading[dir]++
		s.room.read[uid] = time.Now()
	}
	return dir, ok
}

// leave removes the generation with its last reader, if it is retired.
func (s *Store) leave(ctx context.Context, dir string) {
	s.mu.Lock()
	s.reading[dir]--
	last := s.reading[dir] == 0
	retired := s.retired[dir]
	if last {
		delete(s.reading, dir)
		delete(s.retired, dir)
	}
	s.mu.Unlock()
	if last && retired {
		s.removeGeneration(ctx, dir)
	}
}

// retire removes the generations of a repository that nobody needs any more: all but those to keep.
// One that is being read goes with its last reader.
func (s *Store) retire(ctx context.Context, home string, keep ...string) {
	entries, err := os.ReadDir(home)
	if err != nil {
		s.logger.WarnContext(ctx, "old generations not removed", slog.Any("error", err))
	}
	for _, e := range entries {
		dir := filepath.Join(home, e.Name())
		if e.IsDir() && !slices.Contains(keep, dir) && !s.postpone(dir) {
			s.removeGeneration(ctx, dir)
		}
	}
}

// postpone reports whether a generation is being read, and has it removed afterwards.
func (s *Store) postpone(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading[dir] == 0 {
		return false
	}
	s.retired[dir] = true
	return true
}

// removeGeneration frees the room. What stays is swept at the next start.
func (s *Store) removeGeneration(ctx context.Context, dir string) {
	s.forget(dir)
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.logger.WarnContext(ctx, "old generation not removed", slog.Any("error", err))
	}
}
