// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// Open implements [content.Opener]. The error is mirror.ErrNoMirror where there is nothing to read.
func (s *Store) Open(ctx context.Context, uid string) (content.Reader, error) {
	if err := s.readers.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	dir, ok := s.generations.enter(uid)
	if !ok {
		s.readers.Release(1)
		return nil, mirror.ErrNoMirror
	}
	s.disk.noteRead(uid, time.Now())
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

// Close implements [content.Reader].
func (r reader) Close() error {
	defer r.release()
	return r.Reader.Close()
}

// Objects opens the bare repository in dir, such as a draft's, for reading. It is not counted among
// the readers, and does not keep dir from being removed.
func (s *Store) Objects(dir string) (*history.Reader, error) {
	cfg, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	return history.Open(dir, history.Params{Partial: cfg.isPartial, Large: func(ctx context.Context, id string) (content.File, error) {
		return s.params.Large(ctx, dir, id)
	}})
}

// verify returns an error unless every pack that st names is whole in dir, and every ref leads to
// an object. The error matches ErrForeign where the back end could not continue with the mirror.
func (s *Store) verify(ctx context.Context, dir string, st state) error {
	if st.Partial && !s.params.Partial {
		return fmt.Errorf("verify mirror: it is partial: %w", ErrForeign)
	}
	for name, size := range st.Packs {
		info, err := os.Stat(filepath.Join(packFolder(dir), name))
		if err != nil {
			return fmt.Errorf("verify mirror: %w", err)
		}
		if info.Size() != size {
			return fmt.Errorf("verify mirror: %s has %d bytes, want %d", name, info.Size(), size)
		}
	}
	return s.verifyRefs(ctx, dir, allRefs(st.Refs))
}

// maxVerified bounds how many tips are read whole when a mirror is loaded. The others are looked up
// in the index.
const maxVerified = 256

func (s *Store) verifyRefs(ctx context.Context, dir string, refs mirror.Refs) error {
	objects, err := s.Objects(dir)
	if err != nil {
		return fmt.Errorf("verify mirror: %w", err)
	}
	defer func() { _ = objects.Close() }()
	for i, ref := range refs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(ref.Object) == digitsSHA256 && !s.params.SHA256 {
			return fmt.Errorf("verify %s: SHA-256 object names: %w", ref.Name, ErrForeign)
		}
		kind, err := objects.Kind(ref.Object)
		if err == nil && kind == "" {
			err = content.ErrDamaged
		}
		if err == nil && i < maxVerified && ref.Commit != "" {
			_, err = objects.Commit(ctx, ref.Commit)
		}
		if err != nil {
			return fmt.Errorf("verify %s: %w", ref.Name, err)
		}
	}
	return nil
}
