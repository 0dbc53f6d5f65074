// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

func TestSentinelFailOver(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	surviveFailOver(t, group.URL(), func() { group.KillMaster(t) })
}

func TestClusterFailOver(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	surviveFailOver(t, cluster.URL(), func() { cluster.KillMasterOf(t, "leat:{gitcache}:events") })
}

// TestSecRedisAsShipped runs two replicas on the Redis that deploy/ ships, over TLS and as its user
// for gitcache. That user may do everything that replicas need.
func TestSecRedisAsShipped(t *testing.T) {
	t.Parallel()
	redis := redistest.StartTLSAs(t, "gitcache")
	surviveFailOver(t, redis.URL(), func() {}, func(c *gitcache.Config) { c.RedisCAFile = redis.CAFile() })
	refused, err := redis.Admin(t).ACLLog(t.Context(), 20).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refused {
		t.Errorf("user %s was refused %s %s", r.Username, r.Reason, r.Object)
	}
}

// surviveFailOver runs two replicas on a Redis that fails over: leases, definitions and events work
// before and after.
func surviveFailOver(t *testing.T, url string, failOver func(), options ...func(*gitcache.Config)) {
	t.Helper()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	options = append(options, shortLeases)
	a, b := start(t, url, t.TempDir(), options...), start(t, url, t.TempDir(), options...)
	def := definition("demo", repo.URL())
	def.PollInterval = durationpb.New(5e9)
	a.put(t, def)
	epoch := b.state(t, "demo", ready).GetEpoch()
	stream, err := b.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	awaitSynced(stream)

	failOver()
	commit := repo.Commit(t, "feature", map[string]string{"app/a.yaml": "a: 2\n"})
	await.Success(t, "the new commit after the fail-over", func(ctx context.Context) error {
		if _, err := a.RefreshRepository(ctx, &gitcachev1.RefreshRepositoryRequest{Name: "demo", Wait: true}); err != nil {
			return err
		}
		resp, err := b.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "feature", "app")})
		if err == nil && resp.GetSnapshot().GetCommit() != commit {
			return errors.New("another commit")
		}
		return err
	})
	if got := b.state(t, "demo", ready).GetEpoch(); got < epoch {
		t.Errorf("got epoch %d after the fail-over, want at least %d", got, epoch)
	}
	if !seesFeature(stream) {
		wantMoved(t, stream.Err())
	}
	watchAgain(t, b, repo)
	b.put(t, definition("late", repo.URL()))
	a.state(t, "late", ready)
	if got := repo.Stats(); got.MaxInFlight > 2 { // of two repositories on one upstream
		t.Errorf("got %d requests at once at the upstream, want at most 2", got.MaxInFlight)
	}
}

// watchAgain watches as a client does that was told to begin again. A stream that begins before its
// replica has noticed the fail-over may be told so once more.
func watchAgain(t *testing.T, r *replica, repo *gittest.Repo) {
	t.Helper()
	changes := 0
	await.Success(t, "an event after the fail-over", func(ctx context.Context) error {
		stream, err := r.WatchRepositories(ctx, &gitcachev1.WatchRepositoriesRequest{})
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		awaitSynced(stream)
		changes++
		repo.Commit(t, "feature", map[string]string{"app/a.yaml": fmt.Sprintf("a: %d\n", 2+changes)})
		if seesFeature(stream) {
			return nil
		}
		wantMoved(t, stream.Err())
		return stream.Err()
	})
}

// wantMoved checks how a watcher's stream ends at a fail-over: its replica does not reach the log for a moment, or
// the log has begun again, because Redis may have forgotten some of it.
func wantMoved(t *testing.T, err error) {
	t.Helper()
	switch rpcerr.ReasonOf(err) {
	case errorsv1.Reason_REASON_RESUME_EXPIRED, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE:
	default:
		t.Fatalf("got %v, want the watcher to be told to begin again, or that Redis does not answer", err)
	}
}

func awaitSynced(stream *connect.ServerStreamForClient[gitcachev1.WatchRepositoriesResponse]) {
	for stream.Receive() && !stream.Msg().GetSynced() {
	}
}

// seesFeature reports whether an event of that branch comes before the stream ends.
func seesFeature(stream *connect.ServerStreamForClient[gitcachev1.WatchRepositoriesResponse]) bool {
	for stream.Receive() {
		event := stream.Msg().GetEvent()
		if event.GetAllRefs() || slices.Contains(event.GetChangedRefs(), "refs/heads/feature") {
			return true
		}
	}
	return false
}

func TestRedisURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"http://redis:6379", "redis+other://redis:6379", "redis+sentinel://:secret@redis:26379/0", "redis+cluster://:secret@redis:1?addr=x",
		"redis+sentinel://redis:26379?master_name=m&addr=x&password=secret", "redis://:secret@redis:port/0",
	} {
		cfg := gitcache.Config{RedisURL: url, DataDir: t.TempDir(), Service: hubkeys.Config(identity.ServiceGitCache)}
		cfg.Serve.ListenAddr = "127.0.0.1:0"
		err := gitcache.Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "redis url") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error about the URL, without its password", url, err)
		}
	}
}
