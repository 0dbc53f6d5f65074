// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Export implements [mirror.Storage]. A digest is computed once for each file and process.
func (s *Store) Export(ctx context.Context, uid string) (string, []mirror.File, error) {
	dir := s.generations.get(uid)
	if dir == "" {
		return "", nil, mirror.ErrNoMirror
	}
	names, err := wholePacks(dir)
	if err != nil {
		return "", nil, err
	}
	files := make([]mirror.File, len(names))
	for i, name := range names {
		if files[i], err = s.descriptions.get(ctx, filepath.Join(packFolder(dir), name)); err != nil {
			return "", nil, fmt.Errorf("describe pack: %w", err)
		}
	}
	return filepath.Base(dir), files, nil
}

// OpenFile implements [mirror.Storage].
func (s *Store) OpenFile(_ context.Context, uid, generation, name string) (io.ReadCloser, error) {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return nil, err
	}
	if !generationForm.MatchString(generation) || !packForm.MatchString(name) {
		return nil, mirror.ErrNoMirror
	}
	f, err := os.Open(filepath.Join(packFolder(filepath.Join(home, generation)), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mirror.ErrNoMirror
	}
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	return f, nil
}
