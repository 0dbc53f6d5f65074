// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

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

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// subject is a back end with the mirror of one repository.
type subject struct {
	Backend

	open New
	dir  string
	def  mirror.Definition
	have mirror.Content
}

func newSubject(t *testing.T, open New, url string) *subject {
	t.Helper()
	s := &subject{open: open, dir: t.TempDir(), def: mirror.Definition{Name: "demo", UID: "uid-1", URL: url}}
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

// leaf is an entry with its content.
type leaf struct {
	Kind    content.Kind
	Content string
}

// leaves reads the folder that a commit holds at path.
func leaves(t *testing.T, r content.Reader, commit, path string) map[string]leaf {
	t.Helper()
	tree, err := r.Tree(t.Context(), commit, path)
	if err != nil {
		t.Fatal(err)
	}
	all, last := map[string]leaf{}, ""
	err = r.Walk(t.Context(), tree, func(e content.Entry) error {
		if e.Path <= last {
			t.Errorf("got %q after %q, want rising paths", e.Path, last)
		}
		last = e.Path
		body, err := readEntry(e)
		if int64(len(body)) != e.Size {
			t.Errorf("got %d bytes of %q, want %d", len(body), e.Path, e.Size)
		}
		all[e.Path] = leaf{e.Kind, string(body)}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// readEntry returns an entry's content; a submodule has none.
func readEntry(e content.Entry) ([]byte, error) {
	if e.Kind == content.KindSubmodule {
		return nil, nil
	}
	body, err := e.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(body)
	return data, errors.Join(err, body.Close())
}

// wantFiles compares all regular files of a commit.
func (s *subject) wantFiles(t *testing.T, commit string, want map[string]string) {
	t.Helper()
	r, err := s.Open(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for path, l := range leaves(t, r, commit, "") {
		got[path] = l.Content
	}
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
func wantReason(t *testing.T, err error, want ...mirror.Reason) {
	t.Helper()
	_ = explained(t, err, want...)
}

// explained is wantReason that returns the failure, which has a message for people.
func explained(t *testing.T, err error, want ...mirror.Reason) *mirror.UpstreamError {
	t.Helper()
	upstream, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || !slices.Contains(want, upstream.Reason) || upstream.Message == "" {
		t.Fatalf("got error %v, want reason %s", err, want)
	}
	return upstream
}
