// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// subject is a back end with the mirror of one repository.
type subject struct {
	mirror.Backend

	open opener
	dir  string
	def  mirror.Definition
	have mirror.Content
}

func newSubject(t *testing.T, open opener, url string) *subject {
	t.Helper()
	s := &subject{open: open, dir: t.TempDir(), def: mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: url}}}
	s.reopen(t)
	return s
}

// reopen is a restart.
func (s *subject) reopen(t *testing.T) {
	t.Helper()
	s.Backend = s.open(t, s.dir)
}

func allowed() error { return nil }

// try fetches, and keeps the content where that succeeds.
func (s *subject) try(ctx context.Context) error { return s.tryGuarded(ctx, allowed) }

func (s *subject) tryGuarded(ctx context.Context, guard func() error) error {
	c, err := s.Fetch(ctx, mirror.FetchParams{Definition: s.def, Have: s.have, Epoch: 1, Guard: guard})
	if err == nil {
		s.have = c
	}
	return err
}

func (s *subject) fetch(t *testing.T) {
	t.Helper()
	if err := s.try(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// reload is a restart after which the mirror must hold what it held.
func (s *subject) reload(t *testing.T) {
	t.Helper()
	s.reopen(t)
	got, err := s.Load(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.have, got); diff != "" {
		t.Errorf("content after a restart (-want +got):\n%s", diff)
	}
}

// wantRefs compares the mirror's refs, by name without "refs/".
func (s *subject) wantRefs(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, ref := range s.have.Refs {
		got[strings.TrimPrefix(ref.Name, "refs/")] = ref.Commit
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
}

// reader opens the mirror until the test ends.
func (s *subject) reader(t *testing.T) content.Reader {
	t.Helper()
	r, err := s.Open(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// files reads all that a commit holds, by path.
func files(t *testing.T, r content.Reader, commit string) map[string]string {
	t.Helper()
	tree, err := r.Tree(t.Context(), commit, "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	readTree(t, r, tree, "", all)
	return all
}

func readTree(t *testing.T, r content.Reader, tree, prefix string, into map[string]string) {
	t.Helper()
	entries, err := r.List(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == content.KindFolder {
			readTree(t, r, e.ID, prefix+e.Name+"/", into)
			continue
		}
		f, err := r.Blob(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		into[prefix+e.Name] = readFile(t, f)
	}
}

// readFile reads a file to its end and closes it.
func readFile(t *testing.T, f content.File) string {
	t.Helper()
	body, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil || int64(len(body)) != f.Size {
		t.Fatalf("got %d bytes (%v) of a file, want %d", len(body), err, f.Size)
	}
	return string(body)
}

// wantFiles compares all regular files of a commit.
func (s *subject) wantFiles(t *testing.T, commit string, want map[string]string) {
	t.Helper()
	r, err := s.Open(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	got := files(t, r, commit)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of %s (-want +got):\n%s", commit, diff)
	}
}

// generations are the mirror's bare repositories on disk.
func (s *subject) generations(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(s.dir, s.def.UID, "gen-*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("got generations %v (%v), want some", dirs, err)
	}
	return dirs
}

// fsck lets git itself judge the mirror.
func (s *subject) fsck(t *testing.T) {
	t.Helper()
	dirs := s.generations(t)
	if len(dirs) != 1 {
		t.Fatalf("got generations %v, want one", dirs)
	}
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"--git-dir=" + dirs[0]}, args...)...)
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := git("fsck", "--full"); err != nil {
		t.Errorf("git fsck: %v\n%s", err, out)
	}
	if head, err := git("rev-parse", "HEAD"); s.have.Head != "" && (err != nil || head != s.have.Head) {
		t.Errorf("got HEAD %s (%v) from git, want %s", head, err, s.have.Head)
	}
	for _, ref := range s.have.Refs {
		if object, err := git("rev-parse", ref.Name); err != nil || object != ref.Object {
			t.Errorf("got %s at %s (%v) from git, want %s", ref.Name, object, err, ref.Object)
		}
	}
}

// wantReason fails the test unless err is a failure of the upstream for one of those reasons.
func wantReason(t *testing.T, err error, want ...reason.Reason) {
	t.Helper()
	_ = explained(t, err, want...)
}

// explained is wantReason that returns the failure, which has a message for people.
func explained(t *testing.T, err error, want ...reason.Reason) *mirror.UpstreamError {
	t.Helper()
	upstream, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || !slices.Contains(want, upstream.Reason) || upstream.Message == "" {
		t.Fatalf("got error %v, want reason %s", err, want)
	}
	return upstream
}
