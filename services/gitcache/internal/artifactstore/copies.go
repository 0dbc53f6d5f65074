// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// Export implements [mirror.Storage].
func (s *Store) Export(_ context.Context, uid string) (string, []mirror.File, error) {
	h, ok := s.get(uid)
	if !ok {
		return "", nil, mirror.ErrNoMirror
	}
	files := make([]mirror.File, 0, len(h.state.Files))
	for _, name := range slices.Sorted(maps.Keys(h.state.Files)) {
		files = append(files, h.state.Files[name])
	}
	return artifact.Generation, files, nil
}

// OpenFile implements [mirror.Storage].
func (s *Store) OpenFile(_ context.Context, uid, generation, name string) (io.ReadCloser, error) {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return nil, err
	}
	if generation != artifact.Generation || !fileForm.MatchString(name) {
		return nil, mirror.ErrNoMirror
	}
	f, err := os.Open(filepath.Join(home, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mirror.ErrNoMirror
	}
	if err != nil {
		return nil, fmt.Errorf("open artifact: %w", err)
	}
	return f, nil
}

// Adopt implements [mirror.Storage]. Artifacts that the copy lacks are removed.
func (s *Store) Adopt(
	ctx context.Context, uid string, c mirror.Copy, open func(context.Context, mirror.File) (io.ReadCloser, error),
) (mirror.Content, error) {
	content, err := s.adopt(ctx, uid, c, open)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("adopt artifacts: %w", err)
	}
	return content, nil
}

func (s *Store) adopt(
	ctx context.Context, uid string, c mirror.Copy, open func(context.Context, mirror.File) (io.ReadCloser, error),
) (mirror.Content, error) {
	next := state{Content: c.Content, Files: make(map[string]mirror.File, len(c.Files))}
	for _, f := range c.Files {
		if _, isTwice := next.Files[f.Name]; isTwice || !fileForm.MatchString(f.Name) || f.Size < 0 {
			return mirror.Content{}, fmt.Errorf("%.100q names no artifact", f.Name)
		}
		next.Files[f.Name] = f
		if digestIn(f.Name) == "" {
			next.Memo = f.Name
		}
	}
	home, err := s.makeHome(uid)
	if err != nil {
		return mirror.Content{}, err
	}
	h, _ := s.get(uid)
	mine := h.state.with(h.kept).Files
	for _, name := range slices.Sorted(maps.Keys(next.Files)) {
		f := next.Files[name]
		if own, ok := mine[name]; ok && own == f && (!c.Doubted || verifyFile(filepath.Join(home, name), f) == nil) {
			continue
		}
		if err := s.obtain(ctx, home, f, len(mine) == 0, open); err != nil {
			return mirror.Content{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := writeJSON(filepath.Join(home, stateFile), next); err != nil {
		return mirror.Content{}, err
	}
	s.set(uid, held{state: next})
	for name := range mine {
		if _, ok := next.Files[name]; !ok {
			s.drop(home, name)
		}
	}
	return next.content(), nil
}

// obtain copies a file, and makes it count only once it matches f.
func (s *Store) obtain(
	ctx context.Context, home string, f mirror.File, isNew bool, open func(context.Context, mirror.File) (io.ReadCloser, error),
) error {
	body, err := open(ctx, f)
	if err != nil {
		return err
	}
	s.listings.Remove(filepath.Join(home, f.Name))
	hash := digest.NewHasher()
	_, err = s.write(home, f.Name, isNew, func(w io.Writer) error {
		n, err := io.Copy(io.MultiWriter(w, hash), io.LimitReader(pack.ContextReader{Context: ctx, Reader: body}, f.Size+1))
		if got := hash.Digest().String(); err == nil && (n != f.Size || got != f.Digest) {
			err = fmt.Errorf("got %d bytes with %s, want %d with %s: %w", n, got, f.Size, f.Digest, digest.ErrMismatch)
		}
		return err
	})
	return errors.Join(err, body.Close())
}

// drop removes the file of an artifact. A remaining one is swept when the mirror is loaded next.
func (s *Store) drop(home, name string) {
	path := filepath.Join(home, name)
	s.listings.Remove(path)
	_ = os.Remove(path)
}
