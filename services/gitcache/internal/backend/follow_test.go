// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func followsUpstream(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "group/demo")
	first := repo.Commit(t, "main", map[string]string{"a.b": "1", "a/x": "2", "a0": "3"})
	repo.AnnotatedTag(t, "v1", first)
	s := newSubject(t, open, repo.URL())
	if err := s.Check(s.def); err != nil {
		t.Fatal(err)
	}
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": first, "tags/v1": first})
	if s.have.DefaultBranch != "refs/heads/main" || s.have.Head != first || s.have.DiskBytes == 0 || s.have.Epoch != 1 {
		t.Errorf("got %+v, want HEAD at main, a size and the epoch", s.have)
	}
	s.wantFiles(t, first, map[string]string{"a.b": "1", "a/x": "2", "a0": "3"})

	before := s.have
	repo.ResetStats()
	s.fetch(t)
	if got := repo.Stats().Fetches; got != 0 {
		t.Errorf("got %d requests for objects from a poll without news, want none", got)
	}
	if !s.have.ChangedAt.Equal(before.ChangedAt) || s.have.FreshAt.Before(before.FreshAt) {
		t.Errorf("got %+v after a poll without news, want it fresher and no change", s.have)
	}

	second := repo.Commit(t, "main", map[string]string{"a/x": "two"})
	s.fetch(t)
	feature := repo.Commit(t, "feature", map[string]string{"f": "1"}) // without a common history
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": second, "heads/feature": feature, "tags/v1": first})
	s.wantFiles(t, second, map[string]string{"a.b": "1", "a/x": "two", "a0": "3"})
	s.fsck(t)
}

// followsRewrittenHistory moves refs in every way that loses commits: what was mirrored stays
// readable, and an emptied repository is a state like any other.
func followsRewrittenHistory(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	feature := repo.Commit(t, "feature", map[string]string{"f": "1"})
	repo.AnnotatedTag(t, "v1", first)
	s := newSubject(t, open, repo.URL())
	s.fetch(t)

	forced := repo.ForcePush(t, "main", map[string]gittest.File{"other": gittest.Text("1")})
	repo.AnnotatedTag(t, "v1", second)
	repo.DeleteBranch(t, "feature")
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": forced, "tags/v1": second})
	s.wantFiles(t, forced, map[string]string{"other": "1"})
	s.wantFiles(t, feature, map[string]string{"f": "1"})
	s.fsck(t)

	repo.Git(t, "branch", "next", second)
	repo.Git(t, "symbolic-ref", "HEAD", "refs/heads/next")
	s.fetch(t)
	if s.have.DefaultBranch != "refs/heads/next" || s.have.Head != second {
		t.Errorf("got %+v, want another default branch", s.have)
	}
	repo.DeleteBranch(t, "next")
	repo.DeleteBranch(t, "main")
	repo.Git(t, "tag", "-d", "v1")
	s.fetch(t)
	s.wantRefs(t, map[string]string{})
	if !s.have.Exists() || s.have.Head != "" {
		t.Errorf("got %+v of an emptied repository, want no HEAD", s.have)
	}
	s.wantFiles(t, forced, map[string]string{"other": "1"})
	s.reload(t)
	repo.Git(t, "branch", "next", first)
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/next": first})
}

func emptyRepository(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	s.wantRefs(t, map[string]string{})
	if !s.have.Exists() {
		t.Error("got no mirror of an empty repository, want an empty one")
	}
	s.fetch(t)
	s.reload(t)
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": first})
	s.wantFiles(t, first, map[string]string{"a": "1"})
}

// tagsOfAllKinds are peeled where a commit is at their end; the others are there, and lead nowhere.
func tagsOfAllKinds(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	repo.Tag(t, "light", first)
	repo.AnnotatedTag(t, "inner", first)
	repo.AnnotatedTag(t, "middle", "refs/tags/inner")
	repo.AnnotatedTag(t, "outer", "refs/tags/middle")
	repo.Tag(t, "blob", "main:a")
	repo.Tag(t, "tree", "main^{tree}")
	repo.AnnotatedTag(t, "about-tree", "main^{tree}")
	repo.AnnotatedTag(t, "about-blob", "main:a")
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	s.wantRefs(t, map[string]string{
		"heads/main": first, "tags/light": first, "tags/inner": first, "tags/middle": first, "tags/outer": first,
		"tags/blob": "", "tags/tree": "", "tags/about-tree": "", "tags/about-blob": "",
	})
	for _, tag := range []string{"blob", "tree", "about-tree", "about-blob"} {
		_, err := s.have.Resolve(mirror.Selector{Kind: mirror.SelectTag, Value: tag})
		if !errors.Is(err, mirror.ErrRefNotFound) {
			t.Errorf("%s: got %v, want ErrRefNotFound", tag, err)
		}
	}
	changed := s.have.ChangedAt
	s.fetch(t)
	if !s.have.ChangedAt.Equal(changed) {
		t.Error("got a change from a poll without news")
	}
	s.reload(t)
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	repo.AnnotatedTag(t, "about-tree", second) // something else than before
	s.fetch(t)
	if got, err := s.have.Resolve(mirror.Selector{Kind: mirror.SelectTag, Value: "about-tree"}); got != second || err != nil {
		t.Errorf("got %q (%v) for a tag that was moved to a commit, want %s", got, err, second)
	}
	s.fsck(t)
}

// manyRefs mirrors 50 000 refs.
func manyRefs(t *testing.T, open opener) {
	t.Helper()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	const count = 50_000
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("%s refs/tags/v%d\n", first, i))
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(first):], b[len(first):]) })
	packed := "# pack-refs with: peeled fully-peeled sorted \n" + strings.Join(names, "")
	if err := os.WriteFile(filepath.Join(repo.Dir(), "packed-refs"), []byte(packed), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSubject(t, open, repo.URL())
	measure := func(what string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.fetch(t)
		runtime.ReadMemStats(&after)
		t.Logf("%s: %d MiB allocated", what, (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	measure("clone")
	measure("poll without news")
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	measure("fetch of one moved ref")
	if got, err := s.have.Resolve(mirror.Selector{}); got != second || err != nil || len(s.have.Refs) != count+1 {
		t.Errorf("got %d refs and HEAD at %s (%v), want %d and %s", len(s.have.Refs), got, err, count+1, second)
	}
	s.reload(t)
}
