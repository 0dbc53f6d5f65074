// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

func on(backend string) func(*gitcache.Config) {
	return func(c *gitcache.Config) { c.Backend = backend }
}

// forEachBackend runs a test once on every back end.
func forEachBackend(t *testing.T, run func(t *testing.T, backend func(*gitcache.Config))) {
	t.Helper()
	for _, name := range []string{gitcache.BackendGoGit, gitcache.BackendGit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, on(name))
		})
	}
}

// TestSwitchOfBackends takes one data folder from one back end to the other and back, while the
// upstream is down.
func TestSwitchOfBackends(t *testing.T) {
	t.Parallel()
	server, redis, dir := gittest.New(t), redistest.Start(t), t.TempDir()
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), dir, on(gitcache.BackendGoGit))
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	for i, backend := range []string{gitcache.BackendGit, gitcache.BackendGoGit, gitcache.BackendGit} {
		commit := repo.Commit(t, "main", map[string]string{"app/a.yaml": strings.Repeat("a: 1\n", i+2)})
		r.refresh(t, "demo")
		before := r.resolve(t, source("demo", "main", ""))
		r.stop()
		server.Stop()
		r = start(t, redis.URL(), dir, on(backend))
		after := r.resolve(t, source("demo", "main", ""))
		if after.GetCommit() != commit || after.GetDigest() != before.GetDigest() {
			t.Errorf("%s: got %v without the upstream, want what was mirrored before: %v", backend, after, before)
		}
		app := r.resolve(t, source("demo", "main", "app")) // a folder that no back end has built before
		_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: app.GetDigest()})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a.yaml": strings.Repeat("a: 1\n", i+2)}
		if diff := cmp.Diff(want, unpack(t, app.GetDigest(), stored)); diff != "" {
			t.Errorf("%s: bundle (-want +got):\n%s", backend, diff)
		}
		server.Start(t)
		r.state(t, "demo", ready)
	}
}

// TestSHA256Repository mirrors a repository that names objects by SHA-256, which one back end can
// and the other reports that it cannot.
func TestSHA256Repository(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	if err := errors.Join(os.RemoveAll(repo.Dir()), os.Mkdir(repo.Dir(), 0o700)); err != nil {
		t.Fatal(err)
	}
	repo.Git(t, "init", "--quiet", "--bare", "--object-format=sha256", "--initial-branch=main", repo.Dir())
	commit := repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	repo.AnnotatedTag(t, "v1.0.0", commit)
	if len(commit) != 64 {
		t.Fatalf("got commit %s, want 64 digits", commit)
	}
	dir := t.TempDir()
	r := start(t, redis.URL(), dir, on(gitcache.BackendGit))
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	var digests []string
	for _, ref := range []*typev1.GitRef{
		{Selector: &typev1.GitRef_Branch{Branch: "main"}},
		{Selector: &typev1.GitRef_Semver{Semver: "^1"}},
		{Selector: &typev1.GitRef_Commit{Commit: commit}},
		{Selector: &typev1.GitRef_Commit{Commit: commit[:50]}},
		{Selector: &typev1.GitRef_Commit{Commit: commit[:7]}},
	} {
		got := r.resolve(t, &typev1.Source{Repository: "demo", Ref: ref, Path: "app"})
		if got.GetCommit() != commit {
			t.Errorf("%v: got commit %s, want %s", ref, got.GetCommit(), commit)
		}
		digests = append(digests, got.GetDigest())
	}
	_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: digests[0]})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.yaml": "a: 1\n"}, unpack(t, digests[0], stored)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	second := repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 2\n"})
	r.refresh(t, "demo")
	if got := r.resolve(t, source("demo", "main", "app")).GetCommit(); got != second {
		t.Errorf("got %s after a refresh, want %s", got, second)
	}
	commits, err := r.ListCommits(t.Context(), &gitcachev1.ListCommitsRequest{Source: source("demo", "main", "app")})
	if err != nil || len(commits.GetCommits()) != 2 {
		t.Errorf("got commits %v (%v), want 2", commits.GetCommits(), err)
	}
	r.stop()

	r = start(t, redis.URL(), dir, on(gitcache.BackendGoGit))
	state := r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return s.GetProblem() != nil })
	if got := state.GetProblem(); got.GetReason() != errorsv1.Reason_REASON_UPSTREAM_PROTOCOL || !strings.Contains(got.GetMessage(), "SHA-256") {
		t.Errorf("got problem %v from the back end gogit, want it to speak of SHA-256", got)
	}
	r.stop()
	server.Stop()
	r = start(t, redis.URL(), dir, on(gitcache.BackendGit))
	if got := r.resolve(t, source("demo", "main", "app")).GetCommit(); got != second {
		t.Errorf("got %s with the back end git again, want %s as before", got, second)
	}
}
