// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// fleetOfKeys is two replicas with agents and people, whose calls may not fail.
type fleetOfKeys struct {
	replicas []*hub
	agents   []*agentKey
	// tunnel verifies tokens as the other services do.
	tunnel *identity.JWKS
	calls  atomic.Int64
	// shown counts what streams of the fleet show.
	shown atomic.Int64
}

// sizeOfKeys returns how many agents there are, and the time between two rounds of an agent. Both are
// larger in the long form.
func sizeOfKeys() (agents int, pause time.Duration) {
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		return 200, time.Second
	}
	return 24, 500 * time.Millisecond
}

const (
	// renewalOfKeys is after how many rounds an agent renews its token: the hub bounds that.
	renewalOfKeys = 5
	// editPause is the time between two edits. Replicas have to learn of keys meanwhile, so the load
	// leaves a part of the cores alone.
	editPause = 100 * time.Millisecond
)

func newFleetOfKeys(t *testing.T, change func(*distributor.Config)) *fleetOfKeys {
	t.Helper()
	url := postgrestest.New(t).Database(t)
	set := func(c *distributor.Config) {
		// The tunnel asks for keys again after 10 s, and a replica on busy cores publishes a key many seconds
		// later.
		c.DatabaseURL, c.Keys.SigningLead = url, time.Minute
		change(c)
	}
	first := startHub(t, set)
	f := &fleetOfKeys{replicas: []*hub{first, startReplica(t, first.git, set)}}
	content := newFolder(t, "c1", "one")
	first.git.set("demo", "app", content)
	first.apply(t, repositoryDocument("demo"))
	agents, _ := sizeOfKeys()
	for i := range agents {
		cluster, service := fmt.Sprintf("cluster-%d", i), fmt.Sprintf("app-%d", i)
		first.apply(t, clusterDocument(cluster), configDocument(service, cluster, nil, map[string]string{"PASSWORD": hunter2}))
		f.agents = append(f.agents, first.enrol(t, cluster))
	}
	f.tunnel = identity.NewJWKS(identity.JWKSParams{
		Audience: identity.ServiceTunnel, URL: f.replicas[1].url + "/.well-known/jwks.json", HTTPClient: http.DefaultClient, Logger: telemetry.Noop().Logger(),
	})
	return f
}

// heldToken is the token that a client shows now. It is for one goroutine.
type heldToken string

// Token implements identity.TokenSource.
func (h *heldToken) Token(context.Context) (string, error) { return string(*h), nil }

// keyCaller calls both replicas, over one connection to each, with the token that it holds.
type keyCaller struct {
	token   heldToken
	clients []rpc.Client
}

func (f *fleetOfKeys) caller(t *testing.T) *keyCaller {
	t.Helper()
	c := &keyCaller{}
	for _, replica := range f.replicas {
		client, err := rpc.NewClient(rpc.ClientParams{BaseURL: replica.url, Tokens: &c.token, Telemetry: telemetry.Noop()})
		if err != nil {
			t.Fatal(err)
		}
		c.clients = append(c.clients, client)
	}
	return c
}

// agents calls a replica as an agent.
func (c *keyCaller) agents(replica int, token string) distributorv1connect.DistributorServiceClient {
	c.token = heldToken(token)
	client := c.clients[replica%len(c.clients)]
	return distributorv1connect.NewDistributorServiceClient(client.HTTP, client.BaseURL, client.Options...)
}

// fleet calls a replica as a person.
func (c *keyCaller) fleet(replica int, token string) fleetv1connect.FleetServiceClient {
	c.token = heldToken(token)
	client := c.clients[replica%len(c.clients)]
	return fleetv1connect.NewFleetServiceClient(client.HTTP, client.BaseURL, client.Options...)
}

// answered makes a call again while the database is late, as agents do. On busy cores it is.
func answered[T any](call func() (T, error)) (T, error) {
	for {
		res, err := call()
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE {
			return res, err
		}
	}
}

// agent makes the calls of one agent until ctx is done: each token comes from one replica and is
// used at the other.
func (f *fleetOfKeys) agent(t *testing.T, ctx context.Context, i int) {
	service := fmt.Sprintf("app-%d", i)
	var tokens *distributorv1.RefreshTokenResponse
	calls := f.caller(t)
	_, every := sizeOfKeys()
	pause := time.NewTicker(every)
	defer pause.Stop()
	for n := i; ctx.Err() == nil; n++ {
		<-pause.C
		if n%renewalOfKeys == i%renewalOfKeys {
			assertion, err := identity.SignAssertion(f.agents[i].key, f.agents[i].cluster)
			if err != nil {
				t.Error(err)
				return
			}
			tokens, err = answered(func() (*distributorv1.RefreshTokenResponse, error) {
				return calls.agents(n, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
			})
			if err != nil {
				t.Errorf("agent %d: refresh: %v", i, err)
				return
			}
		}
		if _, err := f.tunnel.Verify(t.Context(), tokens.GetTunnelToken()); err != nil {
			t.Errorf("agent %d: the tunnel refuses a new token: %v", i, err)
		}
		for _, token := range []string{tokens.GetAccessToken(), f.agents[i].token} {
			config, err := answered(func() (*distributorv1.GetServiceConfigResponse, error) {
				return calls.agents(n+1, token).GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: service})
			})
			if err != nil || string(config.GetSecrets()["PASSWORD"]) != hunter2 {
				t.Errorf("agent %d: configuration: %v", i, err)
				return
			}
		}
		f.calls.Add(4)
	}
}

// watch holds the stream of an agent's plan open until ctx is done.
func (f *fleetOfKeys) watch(t *testing.T, ctx context.Context, i int) {
	_, err := answered(func() (struct{}, error) {
		stream, err := f.replicas[i%2].agents(t, f.agents[i].token).WatchPlan(ctx, &distributorv1.WatchPlanRequest{})
		if err != nil {
			return struct{}{}, err
		}
		defer func() { _ = stream.Close() }()
		for stream.Receive() {
			f.calls.Add(1)
		}
		return struct{}{}, stream.Err()
	})
	if ctx.Err() == nil {
		t.Errorf("agent %d: stream ended: %v", i, err)
	}
}

// viewer follows the fleet until ctx is done, by an access token that the replaced key signed. Nothing of
// what it has seen is deleted meanwhile.
func (f *fleetOfKeys) viewer(t *testing.T, ctx context.Context, i int) {
	here, there := f.replicas[i%2], f.replicas[(i+1)%2]
	access, err := here.fleet(t, adminToken).CreateAccessToken(ctx, &fleetv1.CreateAccessTokenRequest{})
	if err != nil {
		t.Errorf("viewer %d: access token: %v", i, err)
		return
	}
	stream, err := there.fleet(t, access.GetAccessToken()).Watch(ctx, &fleetv1.WatchRequest{})
	if err != nil {
		t.Errorf("viewer %d: watch: %v", i, err)
		return
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		f.shown.Add(1)
		if stream.Msg().GetDeleted() {
			t.Errorf("viewer %d: %v was deleted", i, stream.Msg().GetDocument())
		}
	}
	if ctx.Err() == nil {
		t.Errorf("viewer %d: stream ended: %v", i, stream.Err())
	}
}

// editor writes secrets until ctx is done.
func (f *fleetOfKeys) editor(t *testing.T, ctx context.Context) {
	calls := f.caller(t)
	pause := time.NewTicker(editPause)
	defer pause.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		<-pause.C
		name := fmt.Sprintf("app-%d", n%len(f.agents))
		document := configDocument(name, fmt.Sprintf("cluster-%d", n%len(f.agents)), map[string]string{"N": fmt.Sprint(n)}, map[string]string{"PASSWORD": hunter2})
		_, err := calls.fleet(n, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		if err != nil {
			t.Errorf("edit %d: %v", n, err)
			return
		}
		access, err := calls.fleet(n, adminToken).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
		if err != nil {
			t.Errorf("access token %d: %v", n, err)
			return
		}
		if _, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), calls.fleet(n+1, access.GetAccessToken()), &fleetv1.ListRequest{}); err != nil {
			t.Errorf("call %d with the access token of another replica: %v", n, err)
			return
		}
		f.calls.Add(3)
	}
}

// load runs agents and an editor until stop is called.
func (f *fleetOfKeys) load(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range f.agents {
		running.Go(func() { f.agent(t, ctx, i) })
		running.Go(func() { f.watch(t, ctx, i) })
		if i%8 == 0 {
			running.Go(func() { f.viewer(t, ctx, i/8) })
		}
	}
	running.Go(func() { f.editor(t, ctx) })
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

func (f *fleetOfKeys) keys(t *testing.T) *fleetv1.GetKeysResponse {
	t.Helper()
	keys, err := f.replicas[0].keyService(t).GetKeys(t.Context(), &fleetv1.GetKeysRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestKeysRotateUnderLoad, with 24 agents or 200 in the long form, replaces the sealing key and the
// signing key while agents renew their tokens and read configurations, plans and the fleet are watched,
// and people edit: no call fails, no stream ends, and no token is refused.
func TestKeysRotateUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFleetOfKeys(t, func(*distributor.Config) {})
	stop := f.load(t)
	defer stop()
	before := f.keys(t)
	if len(before.GetSealingKeys()) != 1 || len(before.GetSigningKeys()) != 1 || before.GetSealingKeys()[0].GetValues() < int64(len(f.agents)) {
		t.Fatalf("got %v, want one key of each kind", before)
	}

	sealing, err := f.replicas[1].keyService(t).RotateSealingKey(t.Context(), &fleetv1.RotateSealingKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	signing, err := f.replicas[0].keyService(t).RotateSigningKey(t.Context(), &fleetv1.RotateSigningKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.replicas[1].keyService(t).RotateSigningKey(t.Context(), &fleetv1.RotateSigningKeyRequest{})
	wantReason(t, err, "ROTATION_UNFINISHED")
	await.True(t, "the old sealing key to be deleted", func() bool {
		keys := f.keys(t)
		return len(keys.GetSealingKeys()) == 1 && keys.GetSealingKeys()[0].GetId() == sealing.GetId()
	})
	await.True(t, "the new signing key to sign", func() bool {
		keys := f.keys(t).GetSigningKeys()
		return len(keys) == 2 && keys[1].GetCurrent() && keys[1].GetId() == signing.GetKey().GetId()
	})
	calls, shown := f.calls.Load(), f.shown.Load()
	await.True(t, "calls and changes with the new keys", func() bool {
		return f.calls.Load() > calls+int64(40*len(f.agents)) && f.shown.Load() > shown+int64(len(f.agents)) || t.Failed()
	})
	stop()
	t.Logf("%d agents: %d calls and %d shown changes, none failed", len(f.agents), f.calls.Load(), f.shown.Load())
}

// TestRootOfSealingKeysChangesOver gives a hub, whose root is the service secret, a root of its
// own, and takes the service secret's part away.
func TestRootOfSealingKeysChangesOver(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, configDocument("app", "one", nil, map[string]string{"PASSWORD": hunter2}))
	agent := h.enrol(t, "one")
	before := keysOf(t, h)
	h.stop(t)

	h.cfg.Keys.Sealing = secret.Text("the first root of this test's keys\n")
	h.start(t)
	after := keysOf(t, h)
	if after.GetSealingKeys()[0].GetId() != before.GetSealingKeys()[0].GetId() || after.GetSealingKeys()[0].GetRoot() == before.GetSealingKeys()[0].GetRoot() {
		t.Errorf("got %v, want the key of %v with another root", after, before)
	}
	wantPassword := func() {
		t.Helper()
		config, err := h.agents(t, agent.token).GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: "app"})
		if err != nil || string(config.GetSecrets()["PASSWORD"]) != hunter2 {
			t.Errorf("got %v, want the secret", err)
		}
	}
	wantPassword()
	h.stop(t)

	// Now the service secret may change, because it is no longer the root, and the root may, too.
	h.cfg.Keys.Sealing = secret.Text("the second root of this test's keys\nthe first root of this test's keys\n")
	h.start(t)
	wantPassword()
	h.stop(t)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := h.cfg
	cfg.Serve.Listener = listener
	cfg.Keys.Sealing = secret.Text("the first root of this test's keys")
	if err := distributor.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "wrapped by root local/") {
		t.Errorf("got %v, want that the former root no longer opens the database", err)
	}
	h.cfg.Keys.Sealing = secret.Text("the second root of this test's keys")
	h.start(t)
	wantPassword()
	if now := keysOf(t, h); !proto.Equal(now.GetSigningKeys()[0], before.GetSigningKeys()[0]) {
		t.Errorf("got %v, want the signing key of %v", now, before)
	}
}

func keysOf(t *testing.T, h *hub) *fleetv1.GetKeysResponse {
	t.Helper()
	var keys *fleetv1.GetKeysResponse
	await.True(t, "the hub to answer", func() bool {
		var err error
		keys, err = h.keyService(t).GetKeys(t.Context(), &fleetv1.GetKeysRequest{})
		return err == nil
	})
	return keys
}
