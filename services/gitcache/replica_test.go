// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/gitcache"
)

// replica is one running service.
type replica struct {
	gitcachev1connect.GitCacheServiceClient
	url string
	// internal is the URL for probes and scrapes.
	internal string
	dir      string
	stop     func() // graceful; returns when the replica has ended
}

// start runs a replica on dir until the test ends or it is stopped.
func start(t testing.TB, redisURL, dir string, change ...func(*gitcache.Config)) *replica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := gitcache.Config{
		RedisURL: redisURL, DataDir: dir, Service: hubkeys.Config(identity.ServiceGitCache), Debounce: 20 * time.Millisecond,
		LeaseTTL: 30 * time.Second, LeaseRenew: 5 * time.Second, // longer than any machine is too busy to renew one
		Heartbeat: 200 * time.Millisecond, Followers: 1,
		MaxFileBytes: 64 * config.KiB, Telemetry: telemetry.Config{LogOutput: io.Discard},
	}
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Serve.Listener, cfg.Serve.InternalListener, cfg.Serve.DrainTimeout = listener, internal, 5*time.Second
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gitcache.Run(ctx, cfg) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
	}
	t.Cleanup(stop)
	r := &replica{url: "http://" + listener.Addr().String(), internal: "http://" + internal.Addr().String(), dir: dir, stop: stop}
	r.GitCacheServiceClient = dial(t, r.url, "distributor")
	return r
}

// shortLeases are for replicas that lose their leases.
func shortLeases(c *gitcache.Config) {
	c.LeaseTTL, c.LeaseRenew = 2*time.Second, 400*time.Millisecond
}

func dial(t testing.TB, url, service string) gitcachev1connect.GitCacheServiceClient {
	t.Helper()
	c := connection(t, url, service)
	return gitcachev1connect.NewGitCacheServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func dialReplica(t testing.TB, url, service string) gitcachev1connect.ReplicaServiceClient {
	t.Helper()
	c := connection(t, url, service)
	return gitcachev1connect.NewReplicaServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func connection(t testing.TB, url, service string) rpc.Client {
	t.Helper()
	audience := identity.ServiceGitCache
	if service == identity.ServiceGitCache {
		audience = identity.ReplicaAudience(service, url)
	}
	tokens := hubkeys.Tokens(service, audience)
	c, err := rpc.NewClient(rpc.ClientParams{BaseURL: url, Tokens: tokens, Telemetry: telemetry.Noop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

func definition(name, url string) *gitcachev1.RepositoryDefinition {
	return &gitcachev1.RepositoryDefinition{
		Name: name, Uid: "uid-" + name, Version: 1, Url: url, PollInterval: durationpb.New(time.Hour),
	}
}

func (r *replica) put(t testing.TB, def *gitcachev1.RepositoryDefinition) {
	t.Helper()
	await.Success(t, "the definition of "+def.GetName()+" to be put", func(ctx context.Context) error {
		_, err := r.PutRepository(ctx, &gitcachev1.PutRepositoryRequest{Repository: def})
		if rpcerr.HasReason(err) && rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE {
			t.Fatal(err)
		}
		return err
	})
}

// state waits until the repository's state is as wanted.
func (r *replica) state(t testing.TB, name string, want func(*gitcachev1.RepositoryState) bool) *gitcachev1.RepositoryState {
	t.Helper()
	var last *gitcachev1.RepositoryState
	await.Poll(t, "another state of "+name, 20*time.Millisecond, func() (bool, string) {
		resp, err := r.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: name})
		last = resp.GetState()
		return err == nil && want(last), fmt.Sprintf("%v (%v)", last, err)
	})
	return last
}

func ready(s *gitcachev1.RepositoryState) bool {
	return s.GetPhase() == gitcachev1.RepositoryPhase_REPOSITORY_PHASE_READY && s.GetOwner() != ""
}

func (r *replica) refresh(t testing.TB, name string) *gitcachev1.RepositoryState {
	t.Helper()
	resp, err := r.RefreshRepository(t.Context(), &gitcachev1.RefreshRepositoryRequest{Name: name, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetState()
}

func source(name, branch, path string) *typev1.Source {
	return &typev1.Source{
		Repository: name, Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: branch}}, Path: path,
	}
}

func (r *replica) resolve(t testing.TB, src *typev1.Source) *typev1.Snapshot {
	t.Helper()
	resp, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: src})
	if err != nil {
		t.Fatalf("resolve %v: %v", src, err)
	}
	return resp.GetSnapshot()
}

// download returns the zstd bytes of a bundle.
func (r *replica) download(t testing.TB, req *gitcachev1.DownloadBundleRequest) (*gitcachev1.BundleHeader, []byte, error) {
	t.Helper()
	stream, err := r.DownloadBundle(t.Context(), req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = stream.Close() }()
	var header *gitcachev1.BundleHeader
	var body []byte
	for stream.Receive() {
		if h := stream.Msg().GetHeader(); h != nil {
			header = h
		}
		body = append(body, stream.Msg().GetChunk()...)
	}
	return header, body, stream.Err()
}

func wantReason(t testing.TB, err error, want errorsv1.Reason) {
	t.Helper()
	if got := rpcerr.ReasonOf(err); got != want || err == nil {
		t.Errorf("got reason %s (%v), want %s", got, err, want)
	}
}

func wantField(t testing.TB, err error, want string) {
	t.Helper()
	wantReason(t, err, errorsv1.Reason_REASON_FIELD_INVALID)
	if got := rpcerr.Metadata(err)[rpcerr.MetadataField]; got != want {
		t.Errorf("got field %q (%s), want %q", got, rpcerr.Message(err), want)
	}
	if strings.TrimSpace(rpcerr.Message(err)) == "" {
		t.Errorf("got no message, want one that says what to do")
	}
}

// newClientContext is for calls with headers of their own.
func newClientContext(ctx context.Context) (context.Context, connect.CallInfo) {
	return connect.NewClientContext(ctx)
}
