// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func restart(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	if _, err := s.Load(t.Context(), s.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v before anything was fetched, want ErrNoMirror", err)
	}
	s.fetch(t)
	s.fetch(t) // nothing new: freshness may be kept apart
	garbage := filepath.Join(s.dir, s.def.UID, "tmp-of-a-killed-clone")
	if err := os.MkdirAll(garbage, 0o700); err != nil {
		t.Fatal(err)
	}
	s.reload(t)
	if _, err := os.Stat(garbage); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for what a killed clone left, want it swept", err)
	}
	s.wantFiles(t, first, map[string]string{"a": "1"})
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": second})
	s.wantFiles(t, second, map[string]string{"a": "2"})

	if err := s.Remove(t.Context(), s.def.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), s.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v from a removed mirror, want ErrNoMirror", err)
	}
	if _, err := s.Load(t.Context(), s.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v from loading a removed mirror, want ErrNoMirror", err)
	}
	if err := s.Remove(t.Context(), s.def.UID); err != nil {
		t.Errorf("got %v from removing a mirror that is not there, want nothing", err)
	}
}

// damagedMirror harms the files of a mirror in one way after the other. Each time the mirror is
// dropped when it is loaded, and cloned again.
func damagedMirror(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	for name, harm := range map[string]func(pack string) error{
		"pack cut off":     func(pack string) error { return os.Truncate(pack, 20) },
		"pack gone":        os.Remove,
		"index gone":       func(pack string) error { return os.Remove(pack[:len(pack)-len("pack")] + "idx") },
		"index cut off":    func(pack string) error { return os.Truncate(pack[:len(pack)-len("pack")]+"idx", 1000) },
		"another pack":     func(pack string) error { return os.WriteFile(pack, []byte("PACK and nothing else"), 0o600) },
		"state cut off":    func(string) error { return os.Truncate(filepath.Join(s.dir, s.def.UID, "state.json"), 50) },
		"state is nothing": func(string) error { return os.Truncate(filepath.Join(s.dir, s.def.UID, "state.json"), 0) },
	} {
		s.have = mirror.Content{}
		s.fetch(t)
		packs, err := filepath.Glob(filepath.Join(s.generations(t)[0], "objects", "pack", "*.pack"))
		if err != nil || len(packs) == 0 {
			t.Fatalf("got packs %v (%v), want some", packs, err)
		}
		files, err := filepath.Glob(filepath.Join(filepath.Dir(packs[0]), "*"))
		for _, file := range files {
			err = errors.Join(err, os.Chmod(file, 0o600))
		}
		if err := errors.Join(err, harm(packs[0])); err != nil {
			t.Fatal(err)
		}
		s.reopen(t)
		if _, err := s.Load(t.Context(), s.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
			t.Errorf("%s: got %v, want ErrNoMirror", name, err)
		}
	}
	s.have = mirror.Content{}
	s.fetch(t)
	s.wantFiles(t, first, map[string]string{"a": "1"})
	s.fsck(t)
}

// clonesAgain checks the clone that follows when a mirror turned out to be damaged while it was in
// use.
func clonesAgain(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	before := s.generations(t)
	s.have = mirror.Content{}
	s.fetch(t)
	s.wantFiles(t, first, map[string]string{"a": "1"})
	s.fsck(t) // finds one generation
	if after := s.generations(t); cmp.Equal(before, after) {
		t.Errorf("got generation %v, want another than before", after)
	}
	s.reload(t)
}
