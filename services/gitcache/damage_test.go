// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// turnByte turns over one byte in the middle of the only pack of a mirror.
func turnByte(t *testing.T, dir string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, "mirrors", "uid-demo", "gen-*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("got packs %v (%v), want one", packs, err)
	}
	data, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.Chmod(packs[0], 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(packs[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(data, 0) // in place: it is the same file, for a copy that is linked too
	if closing := file.Close(); err != nil || closing != nil {
		t.Fatal(err, closing)
	}
}

// incompressible makes a text of which a pack holds nearly every byte.
func incompressible() string {
	var bytes [30 << 10]byte
	_, _ = rand.NewChaCha8([32]byte{1}).Read(bytes[:])
	return base64.StdEncoding.EncodeToString(bytes[:])
}

// TestATurnedByteIsMended: bytes that changed on a replica's disk are noticed before they are in
// any bundle, and the mirror is repaired, from another replica if one has it, even while the
// upstream is down.
func TestATurnedByteIsMended(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"alone": 0, "with a follower": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, redis := gittest.New(t), redistest.Start(t)
			repo := server.Repo(t, "demo")
			repo.Commit(t, "main", map[string]string{"data/text": incompressible(), "other/a": "1"})
			dir := t.TempDir()
			r := start(t, redis.URL(), dir)
			r.put(t, definition("demo", repo.URL()))
			r.state(t, "demo", ready)
			for range others {
				follower := start(t, redis.URL(), t.TempDir())
				await.Success(t, "the follower's copy", func(ctx context.Context) error {
					_, err := dialReplica(t, follower.url, "gitcache").GetMirror(ctx, &gitcachev1.GetMirrorRequest{Repository: "demo", Uid: "uid-demo"})
					return err
				})
				server.Stop()
			}
			turnByte(t, dir)

			var snap string
			failed := 0
			await.Success(t, "a snapshot of the mirror that was damaged", func(ctx context.Context) error {
				newCtx, info := newClientContext(ctx)
				info.RequestHeader().Set("Leat-Forwarded", "holder") // this replica's own mirror is to answer
				resp, err := r.ResolveSnapshot(newCtx, &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "data")})
				if err != nil {
					failed++
					if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_INTERNAL {
						t.Fatal(err)
					}
				}
				snap = resp.GetSnapshot().GetDigest()
				return err
			})
			if failed == 0 {
				t.Error("got an answer from a damaged mirror, want an error first")
			}
			_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: snap})
			if err != nil {
				t.Fatal(err)
			}
			if got := unpack(t, snap, stored)["text"]; got != incompressible() {
				t.Errorf("got other bytes than were committed")
			}
		})
	}
}
