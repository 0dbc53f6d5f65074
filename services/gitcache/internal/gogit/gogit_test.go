// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// fixture is a mirror of one repository.
type fixture struct {
	*gogit.Git
	dir  string
	def  mirror.Definition
	have mirror.Content

	credentials gogit.Credentials
	proxy       func(*http.Request) (*url.URL, error)
	logger      *slog.Logger
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), def: mirror.Definition{Name: "demo", UID: "uid-1", URL: url}}
	f.reopen(t)
	return f
}

// reopen is a restart.
func (f *fixture) reopen(t *testing.T) {
	t.Helper()
	var err error
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	f.Git, err = gogit.New(gogit.Config{Dir: f.dir, Credentials: f.credentials, Proxy: f.proxy, Logger: f.logger})
	if err != nil {
		t.Fatal(err)
	}
}

func allowed() error { return nil }

func (f *fixture) try(ctx context.Context) error {
	c, err := f.Fetch(ctx, mirror.FetchParams{Definition: f.def, Have: f.have, Epoch: 1, Guard: allowed})
	if err == nil {
		f.have = c
	}
	return err
}

func (f *fixture) fetch(t *testing.T) {
	t.Helper()
	if err := f.try(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// refs are the mirror's refs, by name without "refs/".
func (f *fixture) refs() map[string]string {
	refs := map[string]string{}
	for _, ref := range f.have.Refs {
		refs[strings.TrimPrefix(ref.Name, "refs/")] = ref.Commit
	}
	return refs
}

func (f *fixture) wantRefs(t *testing.T, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, f.refs()); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
}

// files reads a whole commit.
func (f *fixture) files(t *testing.T, commit string) map[string]string {
	t.Helper()
	r, err := f.Open(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	tree, err := r.Tree(t.Context(), commit, "")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	if err := walk(t.Context(), r, tree, "", files); err != nil {
		t.Fatal(err)
	}
	return files
}

// walk reads all files of a tree.
func walk(ctx context.Context, r content.Reader, tree, prefix string, files map[string]string) error {
	entries, err := r.List(ctx, tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind == content.KindFolder {
			err = errors.Join(err, walk(ctx, r, e.ID, prefix+e.Name+"/", files))
			continue
		}
		f, openErr := r.Blob(ctx, e.ID)
		if openErr != nil {
			return openErr
		}
		data, readErr := io.ReadAll(f)
		files[prefix+e.Name] = string(data)
		err = errors.Join(err, readErr, f.Close())
	}
	return err
}

func wantReason(t *testing.T, err error, want mirror.Reason) *mirror.UpstreamError {
	t.Helper()
	upstream, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || upstream.Reason != want || upstream.Message == "" {
		t.Fatalf("got error %v, want reason %s", err, want)
	}
	return upstream
}

func TestMirrorFollowsUpstream(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "group/demo")
	first := repo.Commit(t, "main", map[string]string{"a.b": "1", "a/x": "2", "a0": "3"})
	repo.AnnotatedTag(t, "v1", first)
	f := newFixture(t, repo.URL())
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first, "tags/v1": first})
	if f.have.DefaultBranch != "refs/heads/main" || f.have.Head != first || f.have.DiskBytes == 0 {
		t.Errorf("got %+v, want HEAD at main and a size", f.have)
	}
	if diff := cmp.Diff(map[string]string{"a.b": "1", "a/x": "2", "a0": "3"}, f.files(t, first)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	repo.ResetStats()
	f.fetch(t)
	if got := repo.Stats(); got.Refs != 1 || got.Fetches != 0 {
		t.Errorf("got %+v for a poll without news, want one listing only", got)
	}

	second := repo.Commit(t, "main", map[string]string{"a/x": "two"})
	repo.ResetStats()
	f.fetch(t)
	if got := repo.Stats(); got.Refs != 1 || got.Fetches != 1 {
		t.Errorf("got %+v for a fetch, want one listing and one fetch", got)
	}
	feature := repo.Commit(t, "feature", map[string]string{"f": "1"}) // without a common history
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": second, "heads/feature": feature, "tags/v1": first})

	forced := repo.ForcePush(t, "main", map[string]gittest.File{"other": gittest.Text("1")})
	repo.AnnotatedTag(t, "v1", second)
	repo.DeleteBranch(t, "feature")
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": forced, "tags/v1": second})
	if got := f.files(t, forced); len(got) != 1 || got["other"] != "1" {
		t.Errorf("got files %v after a force push, want other", got)
	}
	f.files(t, feature) // what was mirrored stays readable
	fsck(t, f)

	repo.DeleteBranch(t, "main")
	repo.Git(t, "tag", "-d", "v1")
	f.fetch(t)
	f.wantRefs(t, map[string]string{})
	if !f.have.Exists() || f.have.Head != "" {
		t.Errorf("got %+v of an emptied repository, want no HEAD", f.have)
	}
}

// fsck lets git itself judge the mirror.
func fsck(t *testing.T, f *fixture) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(f.dir, f.def.UID, "gen-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("got generations %v (%v), want one", dirs, err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "--git-dir="+dirs[0], "fsck", "--full").CombinedOutput()
	if err != nil {
		t.Errorf("git fsck: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "git", "--git-dir="+dirs[0], "rev-parse", "HEAD").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != f.have.Head {
		t.Errorf("got HEAD %s (%v) from git, want %s", got, err, f.have.Head)
	}
}

func TestEmptyRepository(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	f := newFixture(t, repo.URL())
	f.fetch(t)
	f.wantRefs(t, map[string]string{})
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
}

func TestTagOfBlob(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	repo.Git(t, "tag", "blob", repo.Git(t, "rev-parse", "main:a"))
	f := newFixture(t, repo.URL())
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first, "tags/blob": ""})
	if _, err := f.have.Resolve(mirror.Selector{Kind: mirror.SelectTag, Value: "blob"}); !errors.Is(err, mirror.ErrRefNotFound) {
		t.Errorf("got %v for a tag of a blob, want ErrRefNotFound", err)
	}
	changed := f.have.ChangedAt
	f.fetch(t)
	if !f.have.ChangedAt.Equal(changed) {
		t.Error("got a change from a poll without news")
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	f.fetch(t)
	f.fetch(t) // nothing new: freshness is kept apart
	before := f.have
	garbage := filepath.Join(f.dir, f.def.UID, "tmp-of-a-killed-clone")
	if err := os.MkdirAll(garbage, 0o700); err != nil {
		t.Fatal(err)
	}
	f.reopen(t)
	got, err := f.Load(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("content after a restart (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(garbage); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for what a killed clone left, want it swept", err)
	}
	f.files(t, first)
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": second})

	packs, err := filepath.Glob(filepath.Join(f.dir, f.def.UID, "gen-*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 2 {
		t.Fatalf("got packs %v (%v), want two", packs, err)
	}
	if err := errors.Join(os.Chmod(packs[1], 0o600), os.Truncate(packs[1], 20)); err != nil {
		t.Fatal(err)
	}
	f.reopen(t)
	if _, err := f.Load(t.Context(), f.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v from a damaged mirror, want ErrNoMirror", err)
	}
	f.have = mirror.Content{}
	f.fetch(t)
	f.files(t, second)
	if err := f.Remove(t.Context(), f.def.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(t.Context(), f.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v from a removed mirror, want ErrNoMirror", err)
	}
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"dir/a": "1"})
	f := newFixture(t, repo.URL())
	f.fetch(t)
	r, err := f.Open(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, path := range []string{"nowhere", "dir/a", "dir/a/b", "dir/nowhere"} {
		if _, err := r.Tree(t.Context(), first, path); !errors.Is(err, content.ErrPathNotFound) {
			t.Errorf("got %v for folder %q, want ErrPathNotFound", err, path)
		}
	}
	for _, commit := range []string{strings.Repeat("0", 40), "main", repo.Git(t, "rev-parse", "main^{tree}")} {
		if _, err := r.Commit(t.Context(), commit); !errors.Is(err, content.ErrCommitNotFound) {
			t.Errorf("got %v for commit %q, want ErrCommitNotFound", err, commit)
		}
	}
}

// TestCloneAgain is what follows when a mirror turned out to be damaged while it was in use.
func TestCloneAgain(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	f.fetch(t)
	before, err := filepath.Glob(filepath.Join(f.dir, f.def.UID, "gen-*"))
	if err != nil {
		t.Fatal(err)
	}
	f.have = mirror.Content{}
	f.fetch(t)
	f.files(t, first)
	fsck(t, f) // finds one generation
	after, err := filepath.Glob(filepath.Join(f.dir, f.def.UID, "gen-*"))
	if err != nil || cmp.Equal(before, after) {
		t.Errorf("got generations %v (%v), want another than %v", after, err, before)
	}
}
