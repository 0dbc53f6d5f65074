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
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// packForm are the files of packs, which never change under their names. Nothing else travels
// between replicas.
var packForm = regexp.MustCompile(`^pack-([0-9a-f]{40}|[0-9a-f]{64})\.(pack|idx|rev)$`)

// generationForm keeps a name that came from elsewhere from leaving the folder of its repository.
var generationForm = regexp.MustCompile(`^` + generationPattern + `[A-Za-z0-9]+$`)

func packFolder(generation string) string { return filepath.Join(generation, "objects", "pack") }

// Export implements [mirror.Storage]. A digest is computed once for each file and process.
func (s *Store) Export(ctx context.Context, uid string) (string, []mirror.File, error) {
	dir, ok := s.generation(uid)
	if !ok {
		return "", nil, mirror.ErrNoMirror
	}
	names, err := wholePacks(dir)
	if err != nil {
		return "", nil, err
	}
	files := make([]mirror.File, 0, len(names))
	for _, name := range names {
		file, err := s.describe(ctx, dir, name)
		if err != nil {
			return "", nil, err
		}
		files = append(files, file)
	}
	return filepath.Base(dir), files, nil
}

// wholePacks lists the files of packs that are complete: the pack itself comes last to its name.
func wholePacks(dir string) ([]string, error) {
	entries, err := os.ReadDir(packFolder(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list packs: %w", err)
	}
	var names []string
	for _, e := range entries {
		stem := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		whole := slices.ContainsFunc(entries, func(o os.DirEntry) bool { return o.Name() == stem+".pack" })
		if whole && packForm.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (s *Store) describe(ctx context.Context, dir, name string) (mirror.File, error) {
	path := filepath.Join(packFolder(dir), name)
	s.mu.Lock()
	known, ok := s.described[path]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return mirror.File{}, fmt.Errorf("describe pack: %w", err)
	}
	defer f.Close()
	hash := digest.NewHasher()
	size, err := io.Copy(hash, contextReader{ctx, f})
	if err != nil {
		return mirror.File{}, fmt.Errorf("describe pack: %w", err)
	}
	file := mirror.File{Name: name, Size: size, Digest: hash.Digest().String()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.described[path] = file
	return file, nil
}

// forget drops what is known of files that are no more.
func (s *Store) forget(home string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.described {
		if strings.HasPrefix(path, home+string(filepath.Separator)) {
			delete(s.described, path)
		}
	}
}

// OpenFile implements [mirror.Storage].
func (s *Store) OpenFile(_ context.Context, uid, generation, name string) (io.ReadCloser, error) {
	home, err := s.home(uid)
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
