// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

// partialRepo is one whose server can leave out the content of files.
func partialRepo(t *testing.T, server *gittest.Server) (*gittest.Repo, *gitcachev1.RepositoryDefinition) {
	t.Helper()
	repo := server.Repo(t, "demo")
	repo.Git(t, "config", "uploadpack.allowFilter", "true")
	def := definition("demo", repo.URL())
	def.PartialClone = true
	return repo, def
}

// TestPartialCloneFetchesWhatIsSelected resolves with the digests that a whole mirror gives, for
// one request each.
func TestPartialCloneFetchesWhatIsSelected(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, def := partialRepo(t, server)
	files := map[string]string{
		"app/a.yaml": "a: 1\n", "app/deep/b.yaml": "b: 1\n", "app/deep/junk": "-\n", "app/deep/.leatignore": "junk\n",
		"app/more/.leatignore": "tmp*\n", "app/more/tmp1": "-\n", "app/more/c.yaml": "c: 1\n", "other/large": strings.Repeat("x", 40<<10),
		"app/big": repo.LFS().Put("much content"), ".lfsconfig": "[lfs]\n\tbatch = true\n",
	}
	repo.Commit(t, "main", files)
	r := start(t, redis.URL(), t.TempDir(), on(gitcache.BackendGit))
	r.put(t, def)
	r.state(t, "demo", ready)
	whole := definition("whole", repo.URL())
	r.put(t, whole)
	r.state(t, "whole", ready)
	want := r.resolve(t, source("whole", "main", "app"))

	repo.ResetStats()
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if _, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "app")}); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	snap := r.resolve(t, source("demo", "main", "app"))
	if snap.GetDigest() != want.GetDigest() || snap.GetFileCount() != 4 {
		t.Errorf("got %v, want %v as of a whole mirror", snap, want)
	}
	// All ignore files, all that is left, and what names the LFS server.
	if got := repo.Stats().Fetches; got != 3 {
		t.Errorf("got %d requests for the content of files, want 3", got)
	}
	repo.ResetStats()
	deep := r.resolve(t, source("demo", "main", "app/deep"))
	if got := repo.Stats().Fetches; got != 0 || deep.GetFileCount() != 1 {
		t.Errorf("got %d requests for a folder of %d files that are here, want none for 1", got, deep.GetFileCount())
	}
	for range 2 {
		file, err := r.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: source("demo", "main", "other/large")})
		if err != nil || file.GetSize() != 40<<10 {
			t.Errorf("got %d bytes, %v, want the file", file.GetSize(), err)
		}
	}
	if got := repo.Stats().Fetches; got != 1 {
		t.Errorf("got %d requests for reading a file twice, want one", got)
	}
}

// TestPartialCloneOutlivesItsUpstream resolves through the replica that does not own the
// repository, and takes the upstream and the owner away.
func TestPartialCloneOutlivesItsUpstream(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, def := partialRepo(t, server)
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n", "app/b.yaml": "b: 1\n", "other/c.yaml": "c: 1\n"})
	owner, other := start(t, redis.URL(), t.TempDir(), on(gitcache.BackendGit)), start(t, redis.URL(), t.TempDir(), on(gitcache.BackendGit))
	owner.put(t, def)
	if owner.state(t, "demo", ready).GetOwner() != owner.url {
		owner, other = other, owner
	}
	other.state(t, "demo", ready) // it has heard of the repository too
	ids := []string{strings.TrimSpace(repo.Git(t, "rev-parse", "main:other/c.yaml"))}
	fetchBlobs := func(r *replica) error {
		_, err := dialReplica(t, r.url, "gitcache").FetchBlobs(t.Context(), &gitcachev1.FetchBlobsRequest{
			Repository: "demo", Uid: "uid-demo", Ids: ids,
		})
		return err
	}
	repo.ResetStats()
	wantReason(t, fetchBlobs(other), errorsv1.Reason_REASON_OWNER_UNAVAILABLE)
	if got := repo.Stats().Fetches; got != 0 {
		t.Errorf("got %d requests of a replica that is not the owner, want none", got)
	}
	if err := fetchBlobs(owner); err != nil || repo.Stats().Fetches != 1 {
		t.Errorf("got %v and %+v from the owner, want one request", err, repo.Stats())
	}
	snap := other.resolve(t, source("demo", "main", "app"))
	held := func(r *replica) (string, error) {
		resp, err := dialReplica(t, r.url, "gitcache").GetMirror(t.Context(), &gitcachev1.GetMirrorRequest{Repository: "demo", Uid: "uid-demo"})
		return resp.GetFingerprint(), err
	}
	await.Success(t, "the copy at the follower", func(context.Context) error {
		mine, err := held(owner)
		theirs, err2 := held(other)
		if err == nil && err2 == nil && mine != theirs {
			err = errors.New("not copied yet\n" + mine + "\n" + theirs)
		}
		return errors.Join(err, err2)
	})
	server.Stop()
	owner.stop()
	want := map[string]string{"a.yaml": "a: 1\n", "b.yaml": "b: 1\n"}
	if diff := cmp.Diff(want, other.bundle(t, "demo", snap, "app")); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	file, err := other.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: source("demo", "main", "other/c.yaml")})
	if err != nil || string(file.GetContent()) != "c: 1\n" {
		t.Errorf("got %q, %v, want what was fetched before", file.GetContent(), err)
	}
}

// TestPartialCloneWithoutUpstream reports why the content cannot be fetched, and serves existing
// content.
func TestPartialCloneWithoutUpstream(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, def := partialRepo(t, server)
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n", "other/c.yaml": "c: 1\n"})
	r := start(t, redis.URL(), t.TempDir(), on(gitcache.BackendGit))
	r.put(t, def)
	r.state(t, "demo", ready)
	r.resolve(t, source("demo", "main", "app"))
	server.Stop()
	r.resolve(t, source("demo", "main", "app"))
	_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "other")})
	wantReason(t, err, errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE)
}

// TestPartialCloneTakesTheBackEndGit refuses a definition that the other back end cannot serve, and
// tells so where it was put before.
func TestPartialCloneTakesTheBackEndGit(t *testing.T) {
	t.Parallel()
	server, redis, dir := gittest.New(t), redistest.Start(t), t.TempDir()
	repo, def := partialRepo(t, server)
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), dir)
	_, err := r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: def})
	wantReason(t, err, errorsv1.Reason_REASON_FIELD_INVALID)
	if field := rpcerr.Metadata(err)["field"]; field != "repository.partial_clone" {
		t.Errorf("got field %q, want repository.partial_clone", field)
	}
	r.stop()
	r = start(t, redis.URL(), dir, on(gitcache.BackendGit))
	r.put(t, def)
	r.state(t, "demo", ready)
	before := r.resolve(t, source("demo", "main", "app"))
	r.stop()
	r = start(t, redis.URL(), dir)
	r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool {
		return s.GetProblem().GetReason() == errorsv1.Reason_REASON_UPSTREAM_PROTOCOL && strings.Contains(s.GetProblem().GetMessage(), "back end git")
	})
	r.stop()
	r = start(t, redis.URL(), dir, on(gitcache.BackendGit))
	server.Stop()
	if after := r.resolve(t, source("demo", "main", "app")); after.GetDigest() != before.GetDigest() {
		t.Errorf("got %v with the first back end again, want %v without the upstream", after, before)
	}
}

// TestPartialCloneWithSubmodules finds submodules by a file whose content has to be fetched first,
// also of an older commit.
func TestPartialCloneWithSubmodules(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, def := partialRepo(t, server)
	lib := server.Repo(t, "lib")
	inner := lib.Commit(t, "main", map[string]string{"b.yaml": "b: 1\n"})
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	commitModules(t, repo, map[string]module{"app/lib": {"../lib.git", inner}})
	r := start(t, redis.URL(), t.TempDir(), on(gitcache.BackendGit))
	r.put(t, def)
	r.state(t, "demo", ready)
	snap := r.resolve(t, source("demo", "main", "app"))
	want := map[string]string{"a.yaml": "a: 1\n", "lib/b.yaml": "b: 1\n"}
	if diff := cmp.Diff(want, r.bundle(t, "demo", snap, "app")); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
}

// TestPartialCloneIsTakenBack makes the mirror of a repository whole, so that it needs the upstream
// for nothing.
func TestPartialCloneIsTakenBack(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, def := partialRepo(t, server)
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), t.TempDir(), on(gitcache.BackendGit))
	r.put(t, def)
	r.state(t, "demo", ready)
	def.PartialClone, def.Version = false, 2
	r.put(t, def)
	await.Success(t, "a mirror that is not partial", func(ctx context.Context) error {
		resp, err := dialReplica(t, r.url, "gitcache").GetMirror(ctx, &gitcachev1.GetMirrorRequest{Repository: "demo", Uid: "uid-demo"})
		if err == nil && resp.GetPartial() {
			err = errors.New("still partial")
		}
		return err
	})
	server.Stop()
	r.resolve(t, source("demo", "main", "app"))
}
