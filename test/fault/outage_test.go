// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
)

// answer is a replica's answer for one repository, and the content that it serves.
type answer struct {
	digest, commit string
	freshAt        time.Time
}

// ask resolves a folder at one replica, downloads it from there, and verifies the content against
// the digest.
func (f *fleet) ask(t *testing.T, replica int, repository string) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	client := f.client(t, replica)
	resolved, err := client.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{
		Repository: repository, Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
	}})
	if err != nil {
		return answer{}, fmt.Errorf("resolve: %w", err)
	}
	a := answer{
		digest: resolved.GetSnapshot().GetDigest(), commit: resolved.GetSnapshot().GetCommit(), freshAt: resolved.GetFreshAt().AsTime(),
	}
	stream, err := client.DownloadBundle(ctx, &gitcachev1.DownloadBundleRequest{
		Repository: repository, Digest: a.digest, Commit: a.commit, Path: "app",
	})
	if err != nil {
		return answer{}, fmt.Errorf("download: %w", err)
	}
	defer func() { _ = stream.Close() }()
	var packed bytes.Buffer
	for stream.Receive() {
		packed.Write(stream.Msg().GetChunk())
	}
	if err := stream.Err(); err != nil {
		return answer{}, fmt.Errorf("download: %w", err)
	}
	content, err := bundle.Decompress(&packed, bundle.DefaultLimits().Bytes)
	if err != nil {
		return answer{}, fmt.Errorf("decompress: %w", err)
	}
	hash := digest.NewHasher()
	if _, err := io.Copy(hash, content); err != nil {
		return answer{}, fmt.Errorf("decompress: %w", err)
	}
	if got := hash.Digest().String(); got != a.digest {
		return answer{}, fmt.Errorf("downloaded %s, want %s", got, a.digest)
	}
	return a, nil
}

// TestOutageInAnyOrder removes the upstream, the owner of each repository in turn, and Redis, in
// every order. After each of these steps the remaining replicas answer for everything that was
// mirrored, report its age, and serve the content. So does a replica that is restarted while
// everything else is down.
func TestOutageInAnyOrder(t *testing.T) {
	t.Parallel()
	sc := chosenScale()
	sc.repositories = 4
	f := newFleet(t, sc, 2)
	f.awaitFollowedBy(t, f.replicas)
	want := f.digests(t, 0)
	dead, gone := -1, time.Time{}
	steps := map[string]func(){
		"upstream": func() { f.upstream.Stop(); gone = time.Now() },
		"redis":    func() { f.redis.Stop(t) },
		"owner":    func() { f.replicas[dead].kill(t) },
	}
	for i, order := range [][]string{
		{"upstream", "owner", "redis"},
		{"upstream", "redis", "owner"},
		{"owner", "upstream", "redis"},
		{"owner", "redis", "upstream"},
		{"redis", "upstream", "owner"},
		{"redis", "owner", "upstream"},
	} {
		dead = i % len(f.replicas)
		alive := []int{0, 1}
		for _, step := range order {
			steps[step]()
			if step == "owner" {
				alive = []int{1 - dead}
			}
			for _, replica := range alive {
				f.wantAnswers(t, replica, want, fmt.Sprintf("%s: after %s", strings.Join(order, ", "), step))
			}
		}
		f.replicas[dead].start(t)
		f.wantAnswers(t, dead, want, strings.Join(order, ", ")+": after a start with nothing around")
		f.wantNotFresher(t, dead, gone)
		f.upstream.Start(t)
		f.redis.Restart(t)
		f.waitFetchedSince(t, time.Now())
		f.awaitFollowedBy(t, f.replicas)
	}
}

// wantAnswers asks one replica for every repository.
func (f *fleet) wantAnswers(t *testing.T, replica int, want map[string]string, when string) {
	t.Helper()
	for _, name := range f.repos {
		got, err := f.ask(t, replica, name)
		if err != nil || got.digest != want[name] || got.freshAt.IsZero() {
			t.Errorf("%s: %s at %s: got %+v (%v), want %s with its age", when, name, f.replicas[replica].name, got, err, want[name])
		}
	}
}

// wantNotFresher checks that no replica claims to be fresher than it can be.
func (f *fleet) wantNotFresher(t *testing.T, replica int, moment time.Time) {
	t.Helper()
	for _, name := range f.repos {
		if got, err := f.ask(t, replica, name); err != nil || got.freshAt.After(moment) {
			t.Errorf("%s at %s: got fresh at %s (%v), although the upstream was down by %s", name, f.replicas[replica].name, got.freshAt, err, moment)
		}
	}
}
