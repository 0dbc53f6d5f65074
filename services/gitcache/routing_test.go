// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"testing"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// TestHolderAnswersWhileNobodyOwns takes the lease away from all replicas: a replica with a mirror
// answers reads, also reads that reach one without, and reports the age of its answer. Calls that
// need an owner report that there is none.
func TestHolderAnswersWhileNobodyOwns(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	dir := t.TempDir()
	holder := start(t, redis.URL(), dir)
	holder.put(t, definition("demo", repo.URL()))
	fresh := holder.state(t, "demo", ready).GetFreshAt().AsTime()
	before := holder.resolve(t, source("demo", "main", "app"))
	holder.stop()
	// A lease of a replica that does not answer keeps both from fetching.
	leases := leaseredis.New(redis.Client(t), "leat:{gitcache}:")
	_, err := leases.Acquire(t.Context(), lease.AcquireParams{Key: "uid-demo", Owner: "http://127.0.0.1:1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	holder = start(t, redis.URL(), dir)
	other := start(t, redis.URL(), t.TempDir())
	await.Success(t, "the replicas to know each other", func(ctx context.Context) error { // until the two know one another
		_, err := other.ListRefs(ctx, &gitcachev1.ListRefsRequest{Repository: "demo"})
		return err
	})
	for name, r := range map[string]*replica{"with a mirror": holder, "without": other} {
		resp, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "app")})
		if err != nil || resp.GetSnapshot().GetDigest() != before.GetDigest() || resp.GetFreshAt().AsTime().Before(fresh) {
			t.Errorf("%s: got %v (%v), want %s, fresh at %s or later", name, resp, err, before.GetDigest(), fresh)
		}
		_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{
			Repository: "demo", Digest: before.GetDigest(), Commit: commit, Path: "app",
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			unpack(t, before.GetDigest(), stored)
		}
		state, err := r.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: "demo"})
		if err != nil || state.GetState().GetOwner() != "" || state.GetState().GetFreshAt() == nil {
			t.Errorf("%s: got %v (%v), want no owner, and how fresh it is", name, state, err)
		}
		_, err = r.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: "demo"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err = r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "nowhere", "app")})
		wantReason(t, err, errorsv1.Reason_REASON_REF_NOT_FOUND)
		_, err = r.RefreshRepository(t.Context(), &gitcachev1.RefreshRepositoryRequest{Name: "demo"})
		wantReason(t, err, errorsv1.Reason_REASON_OWNER_UNAVAILABLE)
	}
	holder.stop()
	ctx, info := newClientContext(t.Context())
	info.RequestHeader().Set("Leat-Forwarded", "holder")
	_, err = other.GetRepository(ctx, &gitcachev1.GetRepositoryRequest{Name: "demo"})
	wantReason(t, err, errorsv1.Reason_REASON_OWNER_UNAVAILABLE)
	_, err = other.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "app")})
	wantReason(t, err, errorsv1.Reason_REASON_OWNER_UNAVAILABLE)
}

// TestOnlyReplicasMayCopy keeps mirrors, credentials' work, from other services.
func TestOnlyReplicasMayCopy(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := start(t, redis.URL(), t.TempDir())
	for service, want := range map[string]errorsv1.Reason{
		"distributor": errorsv1.Reason_REASON_ACCESS_DENIED, "gitcache": errorsv1.Reason_REASON_NOT_FOUND,
	} {
		c := dialReplica(t, r.url, service)
		_, err := c.GetMirror(t.Context(), &gitcachev1.GetMirrorRequest{Repository: "demo", Uid: "uid-demo"})
		wantReason(t, err, want)
		_, err = c.TakeOver(t.Context(), &gitcachev1.TakeOverRequest{Repository: "demo", Uid: "uid-demo"})
		wantReason(t, err, want)
		stream, err := c.ReadMirrorFile(t.Context(), &gitcachev1.ReadMirrorFileRequest{Repository: "demo", Uid: "uid-demo"})
		if err == nil {
			stream.Receive()
			err = stream.Err()
			_ = stream.Close()
		}
		wantReason(t, err, want)
	}
}
