// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"errors"
	"net/http"
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
)

// bundle returns what a snapshot's bundle holds; it is built again where it is not stored.
func (r *replica) bundle(t *testing.T, name string, snap resolved, path string) map[string]string {
	t.Helper()
	_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{
		Repository: name, Digest: snap.GetDigest(), Commit: snap.GetCommit(), Path: path,
	})
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, snap.GetDigest(), stored)
}

// resolved is the result of resolving.
type resolved interface {
	GetDigest() string
	GetCommit() string
}

// TestLFS delivers content instead of pointers, for one download, and with the digest that the
// content has in Git.
func TestLFS(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	pointer := repo.LFS().Put("much content")
	repo.Commit(t, "plain", map[string]string{"app/a.yaml": "a: 1\n", "app/big": "much content", "app/big2": "much content"})
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n", "app/big": pointer, "app/big2": pointer})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)

	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if _, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "app")}); err != nil {
				t.Error(err)
			}
			if _, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "")}); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if stats := repo.LFS().Stats(); stats != (gittest.LFSStats{Batches: 1, Downloads: 1}) {
		t.Errorf("got %+v for 16 callers of one object, want one download", stats)
	}
	snap := r.resolve(t, source("demo", "main", "app"))
	want := map[string]string{"a.yaml": "a: 1\n", "big": "much content", "big2": "much content"}
	if diff := cmp.Diff(want, r.bundle(t, "demo", snap, "app")); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	if plain := r.resolve(t, source("demo", "plain", "app")); plain.GetDigest() != snap.GetDigest() {
		t.Errorf("got digest %s from pointers, want %s as from content", snap.GetDigest(), plain.GetDigest())
	}
	file, err := r.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: source("demo", "main", "app/big")})
	if err != nil || string(file.GetContent()) != pointer {
		t.Errorf("got %q, %v from ReadFile, want what Git holds", file.GetContent(), err)
	}
}

// TestLFSFailures name the file, and are asked of the upstream once for many callers.
func TestLFSFailures(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.LFS()
	repo.Commit(t, "main", map[string]string{
		"missing/file": gittest.LFSPointer("never pushed"), "large/file": gittest.LFSPointer(strings.Repeat("x", 65<<10)),
		"spoilt/file": repo.LFS().Put("good"), "held/file": repo.LFS().Put("held"),
	})
	repo.LFS().Spoil("good", "evil")
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	resolve := func(path string, want errorsv1.Reason) {
		t.Helper()
		_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", path)})
		wantReason(t, err, want)
		if got := rpcerr.Metadata(err)["path"]; !strings.HasSuffix(got, "file") {
			t.Errorf("%s: got path %q, want the file named", path, got)
		}
	}
	resolve("large", errorsv1.Reason_REASON_BUNDLE_TOO_LARGE)
	if stats := repo.LFS().Stats(); stats.Batches != 0 {
		t.Errorf("got %+v for a file that is too large, want no request", stats)
	}
	for range 3 {
		resolve("missing", errorsv1.Reason_REASON_LFS_OBJECT_MISSING)
	}
	if stats := repo.LFS().Stats(); stats != (gittest.LFSStats{Batches: 1}) {
		t.Errorf("got %+v for three callers of what is missing, want one request", stats)
	}
	resolve("spoilt", errorsv1.Reason_REASON_UPSTREAM_PROTOCOL)
	server.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, "/batch") {
			w.Header().Set("Retry-After", "1000")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		return false
	})
	resolve("held", errorsv1.Reason_REASON_UPSTREAM_RATE_LIMITED)
}

// TestLFSOutlivesItsServer takes the upstream and the owner away: the follower has the objects that
// were resolved, and builds a bundle that it never had.
func TestLFSOutlivesItsServer(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/big": repo.LFS().Put("much content")})
	owner, other := pair(t, redis, repo)
	// Asked of the other one, which forwards: only the owner may download.
	snap := other.resolve(t, source("demo", "main", "app"))
	peer := dialReplica(t, other.url, "gitcache")
	await.Success(t, "the copy of the object at the follower", func(ctx context.Context) error {
		held, err := peer.ListLFSObjects(ctx, &gitcachev1.ListLFSObjectsRequest{Repository: "demo", Uid: "uid-demo"})
		if err == nil && len(held.GetObjects()) != 1 {
			err = errors.New("not copied yet")
		}
		return err
	})
	if stats := repo.LFS().Stats(); stats != (gittest.LFSStats{Batches: 1, Downloads: 1}) {
		t.Errorf("got %+v with a copy at the follower, want one download", stats)
	}
	server.Stop()
	owner.stop()
	want := map[string]string{"big": "much content"}
	if diff := cmp.Diff(want, other.bundle(t, "demo", snap, "app")); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}

	if _, err := other.DeleteRepository(t.Context(), &gitcachev1.DeleteRepositoryRequest{Name: "demo"}); err != nil {
		t.Fatal(err)
	}
	again := definition("demo", repo.URL()) // with the same uid, so that what was left would be seen
	await.Success(t, "the end of the object", func(ctx context.Context) error {
		if _, err := other.PutRepository(ctx, &gitcachev1.PutRepositoryRequest{Repository: again}); err != nil {
			return err
		}
		held, err := peer.ListLFSObjects(ctx, &gitcachev1.ListLFSObjectsRequest{Repository: "demo", Uid: "uid-demo"})
		if err == nil && len(held.GetObjects()) != 0 {
			err = errors.New("still held")
		}
		return err
	})
}

// TestNonOwnerGetsObjectsFromHolders never lets a replica that is not the owner ask the upstream.
func TestNonOwnerGetsObjectsFromHolders(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	pointer := repo.LFS().Put("much content")
	repo.Commit(t, "main", map[string]string{"app/big": pointer})
	owner, other := pair(t, redis, repo)
	object := &gitcachev1.LFSObject{Oid: gittest.LFSOID("much content"), Size: int64(len("much content"))}
	read := func(r *replica) (string, error) {
		stream, err := dialReplica(t, r.url, "gitcache").ReadLFSObject(t.Context(), &gitcachev1.ReadLFSObjectRequest{
			Repository: "demo", Uid: "uid-demo", Object: object,
		})
		if err != nil {
			return "", err
		}
		defer func() { _ = stream.Close() }()
		var content []byte
		for stream.Receive() {
			content = append(content, stream.Msg().GetChunk()...)
		}
		return string(content), stream.Err()
	}
	_, err := read(other)
	wantReason(t, err, errorsv1.Reason_REASON_NOT_FOUND)
	if stats := repo.LFS().Stats(); stats.Batches != 0 {
		t.Errorf("got %+v after a question to a replica that is not the owner, want none", stats)
	}
	if got, err := read(owner); err != nil || got != "much content" {
		t.Errorf("got %q, %v from the owner, want the object", got, err)
	}
	_, err = dialReplica(t, other.url, "distributor").ListLFSObjects(t.Context(), &gitcachev1.ListLFSObjectsRequest{Repository: "demo", Uid: "uid-demo"})
	wantReason(t, err, errorsv1.Reason_REASON_ACCESS_DENIED)
}
