// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"slices"
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

func semver(text string) *typev1.GitRef {
	return &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: text}}
}

func commit(id string) *typev1.GitRef {
	return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: id}}
}

func branch(name string) *typev1.GitRef {
	return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: name}}
}

// wantMessage wants an error of that reason whose message holds the words.
func wantMessage(t *testing.T, err error, reason errorsv1.Reason, words ...string) {
	t.Helper()
	wantReason(t, err, reason)
	for _, word := range words {
		if !strings.Contains(rpcerr.Message(err), word) {
			t.Errorf("got the message %q, want it to hold %q", rpcerr.Message(err), word)
		}
	}
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"app/a": "1"})
	repo.AnnotatedTag(t, "v1.4.0", first)
	second := repo.Commit(t, "main", map[string]string{"app/a": "2"})
	repo.AnnotatedTag(t, "inner", second)
	repo.AnnotatedTag(t, "1.4.2", "refs/tags/inner") // of a tag
	repo.Commit(t, "1.4.2", map[string]string{"app/a": "a branch with the name of a tag"})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	resolve := func(ref *typev1.GitRef) (string, error) {
		resp, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{
			Source: &typev1.Source{Repository: "demo", Ref: ref, Path: "app"},
		})
		return resp.GetSnapshot().GetCommit(), err
	}
	for want, refs := range map[string][]*typev1.GitRef{
		first:                               {semver("1.4.0"), semver(">=1.0 <1.4.1"), commit(first[:7]), commit(first[:39]), commit(first)},
		second:                              {nil, semver("~1.4"), semver("*"), {Selector: &typev1.GitRef_Tag{Tag: "1.4.2"}}, {Selector: &typev1.GitRef_Name{Name: "HEAD"}}},
		repo.Resolve(t, "refs/heads/1.4.2"): {branch("1.4.2")},
	} {
		for _, ref := range refs {
			if got, err := resolve(ref); got != want || err != nil {
				t.Errorf("%v: got %s (%v), want %s", ref, got, err, want)
			}
		}
	}
	fail := func(ref *typev1.GitRef) error {
		_, err := resolve(ref)
		return err
	}
	wantMessage(t, fail(semver("~2")), errorsv1.Reason_REASON_REF_NOT_FOUND, "~2", "1.4.2")
	wantMessage(t, fail(branch("mian")), errorsv1.Reason_REASON_REF_NOT_FOUND, "did you mean refs/heads/main?")
	wantMessage(t, fail(commit("0123456")), errorsv1.Reason_REASON_REF_NOT_FOUND, "no such commit")
	wantField(t, fail(commit("012345")), "source.ref.commit")
	wantField(t, fail(semver("newest")), "source.ref.semver")

	// A short id and a range mean the same everywhere.
	ids := commits(t, r, &typev1.Source{Repository: "demo", Ref: commit(second[:8])}, 1)
	if !slices.Equal(ids, []string{second, first}) {
		t.Errorf("got history %v, want %v", ids, []string{second, first})
	}
	file, err := r.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: &typev1.Source{Repository: "demo", Ref: semver("1.4.0"), Path: "app/a"}})
	if err != nil || string(file.GetContent()) != "1" || file.GetCommit() != first {
		t.Errorf("got %v (%v), want 1 at %s", file, err, first)
	}
	diff, err := r.CompareCommits(t.Context(), &gitcachev1.CompareCommitsRequest{Repository: "demo", Base: commit(first[:10]), Head: semver("~1.4")})
	if err != nil || len(diff.GetChanges()) != 1 || diff.GetChanges()[0].GetPath() != "app/a" {
		t.Errorf("got %v (%v), want app/a", diff, err)
	}
	_, err = r.CompareCommits(t.Context(), &gitcachev1.CompareCommitsRequest{Repository: "demo", Page: &typev1.Page{Token: "e30"}})
	if err != nil {
		t.Errorf("got %v from an empty position, want the first page", err)
	}
	_, err = r.CompareCommits(t.Context(), &gitcachev1.CompareCommitsRequest{Repository: "demo", Page: &typev1.Page{Token: "eyJiYXNlIjoieCJ9"}})
	wantField(t, err, "page.token")
}

// TestRefsThatVanish: deleted branches, force-pushes and emptied repositories are states.
func TestRefsThatVanish(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	old := repo.Commit(t, "main", map[string]string{"app/a": "1"})
	repo.Commit(t, "gone", map[string]string{"app/a": "2"})
	repo.Tag(t, "v1.0.0", old)
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	resolve := func(ref *typev1.GitRef) error {
		_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{Repository: "demo", Ref: ref, Path: "app"}})
		return err
	}
	gone := r.resolve(t, source("demo", "gone", "app"))

	repo.DeleteBranch(t, "gone")
	forced := repo.ForcePush(t, "main", map[string]gittest.File{"app/a": gittest.Text("another history")})
	r.refresh(t, "demo")
	wantReason(t, resolve(branch("gone")), errorsv1.Reason_REASON_REF_NOT_FOUND)
	if got := r.resolve(t, source("demo", "main", "app")); got.GetCommit() != forced {
		t.Errorf("after a force-push: got %s, want %s", got.GetCommit(), forced)
	}
	// Delivered content stays available: by its digest, and by its commit.
	if _, _, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: gone.GetDigest(), Commit: gone.GetCommit(), Path: "app"}); err != nil {
		t.Errorf("the bundle of a deleted branch: %v", err)
	}
	if err := resolve(commit(old[:9])); err != nil {
		t.Errorf("a commit that was pushed away: %v", err)
	}

	repo.DeleteBranch(t, "main")
	repo.Git(t, "tag", "-d", "v1.0.0")
	r.refresh(t, "demo")
	state := r.state(t, "demo", ready)
	if state.GetRefCount() != 0 || state.GetProblem() != nil {
		t.Errorf("emptied: got %v, want a state without refs and without a problem", state)
	}
	wantMessage(t, resolve(nil), errorsv1.Reason_REASON_REF_NOT_FOUND, "no branches")
	wantReason(t, resolve(branch("main")), errorsv1.Reason_REASON_REF_NOT_FOUND)
	wantMessage(t, resolve(semver("*")), errorsv1.Reason_REASON_REF_NOT_FOUND, "no tag that is a version")
	if _, _, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: gone.GetDigest(), Commit: gone.GetCommit(), Path: "app"}); err != nil {
		t.Errorf("the bundle of an emptied repository: %v", err)
	}

	again := repo.Commit(t, "main", map[string]string{"app/a": "back"})
	r.refresh(t, "demo")
	if got := r.resolve(t, source("demo", "main", "app")); got.GetCommit() != again {
		t.Errorf("after a new push: got %s, want %s", got.GetCommit(), again)
	}
}
