// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/store"
)

func newStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.New(store.Params{Dir: dir, Readers: 2, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func allowed() error { return nil }

func params(guard func() error) mirror.FetchParams {
	return mirror.FetchParams{Definition: mirror.Definition{UID: "uid"}, Have: mirror.Content{}, Epoch: 7, Guard: guard}
}

func pointing(id string) mirror.Content {
	return mirror.Content{
		Refs: mirror.NewRefs([]mirror.Ref{{Name: "refs/heads/main", Object: id, Commit: id}}),
		Head: id, DefaultBranch: "refs/heads/main",
	}
}

var (
	sha1   = strings.Repeat("1", 40)
	sha256 = strings.Repeat("2", 64)
)

func accept(t *testing.T, s *store.Store, c mirror.Content, renew bool) string {
	t.Helper()
	d, err := s.Draft("uid", c, renew)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Accept(t.Context(), params(allowed), c); err != nil {
		t.Fatal(err)
	}
	return d.Dir()
}

func generations(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "uid", "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestGenerationStaysWhileItIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir)
	first := accept(t, s, pointing(sha1), true)
	var readers []content.Reader
	for range 2 {
		r, err := s.Open(t.Context(), "uid")
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	second := accept(t, s, pointing(sha1), true)
	for _, r := range readers {
		if diff := cmp.Diff(2, len(generations(t, dir))); diff != "" {
			t.Errorf("generations while %s is read: %s", first, diff)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{second}, generations(t, dir)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
}

func TestRefusedFetchLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir)
	gone := errors.New("lease is gone")
	d, err := s.Draft("uid", pointing(sha1), false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Accept(t.Context(), params(func() error { return gone }), pointing(sha1))
	d.Close()
	if !errors.Is(err, gone) {
		t.Errorf("got %v, want the guard's error", err)
	}
	if got := generations(t, dir); len(got) != 0 {
		t.Errorf("got generations %v, want none", got)
	}
	if _, err := s.Load(t.Context(), "uid"); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v, want ErrNoMirror", err)
	}
}

func TestGenerationIsOfOneFormat(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir())
	empty := accept(t, s, mirror.Content{}, false)
	short := accept(t, s, pointing(sha1), false)
	if short != empty {
		t.Errorf("got another generation for the first commit, want the same")
	}
	long := accept(t, s, pointing(sha256), false)
	if long == short {
		t.Error("got SHA-256 names in a generation of SHA-1")
	}
	cmd := exec.CommandContext(t.Context(), "git", "--git-dir", long, "rev-parse", "--show-object-format")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "sha256" {
		t.Errorf("git says %q (%v) of the generation, want sha256", got, err)
	}
}

func TestLoadJudgesWhatItFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content mirror.Content
		want    error
		kept    bool
	}{
		"whole":   {content: mirror.Content{}, want: nil, kept: true},
		"damaged": {content: pointing(sha1), want: mirror.ErrNoMirror, kept: false},
		"foreign": {content: pointing(sha256), want: mirror.ErrNoMirror, kept: true},
		"partial": {content: mirror.Content{Partial: true}, want: mirror.ErrNoMirror, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			accept(t, newStore(t, dir), c.content, false)
			_, err := newStore(t, dir).Load(t.Context(), "uid")
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := len(generations(t, dir)) == 1; got != c.kept {
				t.Errorf("mirror is there: got %t, want %t", got, c.kept)
			}
		})
	}
}
