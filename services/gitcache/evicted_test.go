// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// builds counts the bundles that a replica has built.
func builds(t *testing.T, r *replica) (n uint64) {
	t.Helper()
	for _, m := range scrape(t, r)["leat_bundle_build_duration_seconds"].GetMetric() {
		n += m.GetHistogram().GetSampleCount()
	}
	return n
}

// TestAnEvictedBundleIsBuiltOnce lets several distributors miss a bundle at the same time that the
// owner has no more, either.
func TestAnEvictedBundleIsBuiltOnce(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	snap := r.resolve(t, source("demo", "main", "app"))
	if err := os.RemoveAll(filepath.Join(r.dir, "bundles", "blobs")); err != nil {
		t.Fatal(err)
	}
	before := builds(t, r)
	var distributors sync.WaitGroup
	received := make([][]byte, 6)
	for n := range received {
		distributors.Go(func() {
			_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{
				Repository: "demo", Digest: snap.GetDigest(), Commit: snap.GetCommit(), Path: "app",
			})
			if err != nil {
				t.Errorf("download: %v", err)
			}
			received[n] = stored
		})
	}
	distributors.Wait()
	for _, stored := range received {
		unpack(t, snap.GetDigest(), stored)
	}
	if got := builds(t, r) - before; got != 1 {
		t.Errorf("builds for six downloads: got %d, want 1", got)
	}
}
