// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel shows that the tunnel is transparent: real clients and random requests get the
// same answers through it as from the API server itself.
package tunnel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/chaos"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/agent"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/tunnel"
)

const (
	adminToken = "leat_0123456789abcdef0123456789abcdef0123456789abcdef"
	// drainTimeout is short, because there are no callers left when the rig ends.
	drainTimeout = "2s"
)

// rig is a hub of two replicas, a real cluster, and one agent for each way to reach it. All tests
// of the package share one, because an API server takes seconds to start.
type rig struct {
	dir         string
	cluster     *localkube.ControlPlane
	binaries    localkube.Binaries
	ca          *authority
	distributor string       // its URL
	hub         string       // the tunnel's own address, host:port
	far         string       // the address of its other replica, which has no agent's connection
	resolver    string       // the URL of a proxy that reaches the hosts of clusters
	door        *chaos.Proxy // where agents connect
	front       *front       // the API server of the cluster "front"
	fleet       fleetv1connect.FleetServiceClient
	token       string       // of a person
	people      *http.Client // with that token
	echo        net.Listener
	services    sync.Map // the addresses of services in the cluster, by the host and port that the agents dial
	mu          sync.Mutex
	ends        []func() // guarded by mu
}

// transport is a transport between an agent and the hub. Each has a cluster of its name, and all
// these clusters are one.
type transport struct {
	name string
	env  map[string]string // settings of its agent
}

// transports returns all transports. The first is the one that agents choose without an
// intermediary.
func transports() []transport {
	const setting = "LEAT_AGENT_TUNNEL_TRANSPORTS"
	return []transport{
		{name: "upgrade", env: map[string]string{setting: "upgrade"}},
		{name: "websocket", env: map[string]string{setting: "websocket"}},
		{name: "connect", env: map[string]string{setting: "connect"}},
	}
}

// frontCluster is the cluster whose API server is a front: a double for some paths, the real one
// for the rest.
const frontCluster = "front"

var shared struct {
	once sync.Once
	rig  *rig
	err  error
}

// theRig returns the rig, and starts it if necessary.
func theRig(t *testing.T) *rig {
	t.Helper()
	shared.once.Do(func() {
		shared.err = errors.New("it failed in another test") // if a helper ends this test
		shared.rig, shared.err = startRig(t)
	})
	if shared.err != nil {
		t.Fatalf("start the rig: %v", shared.err)
	}
	return shared.rig
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.rig != nil {
		shared.rig.stop()
	}
	os.Exit(code)
}

// startRig starts everything and waits until every agent is connected.
func startRig(t *testing.T) (*rig, error) {
	t.Helper()
	r, started := &rig{}, false
	defer func() {
		if !started {
			r.stop()
		}
	}()
	if err := r.start(t); err != nil {
		return nil, err
	}
	started = true
	return r, nil
}

func (r *rig) stop() {
	for i := len(r.ends) - 1; i >= 0; i-- {
		r.ends[i]()
	}
}

func (r *rig) end(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, f)
}

func (r *rig) start(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	var err error
	if r.dir, err = os.MkdirTemp("", "leat-tunnel-"); err != nil { //nolint:usetesting // it outlives the test that starts the rig
		return err
	}
	r.end(func() { _ = os.RemoveAll(r.dir) })
	if r.ca, err = newAuthority(r.dir); err != nil {
		return err
	}
	redis := redistest.Start(lifetime{TB: t, rig: r})
	if err := r.startCluster(ctx); err != nil {
		return err
	}
	if err := r.startHub(ctx, redis.URL()); err != nil {
		return err
	}
	if err := r.startResolver(); err != nil {
		return err
	}
	if err := r.startFront(); err != nil {
		return err
	}
	for _, way := range transports() {
		if err := r.startAgent(ctx, way.name, r.cluster.KubeconfigPath(), way.env); err != nil {
			return err
		}
	}
	return r.startAgent(ctx, frontCluster, r.front.kubeconfig, nil)
}

// startCluster runs a control plane with a kubelet, and gives the hub's administrators all rights,
// like deploy/kubernetes/agent.yaml.
func (r *rig) startCluster(ctx context.Context) error {
	var err error
	if r.echo, err = startEcho(); err != nil {
		return err
	}
	r.end(func() { _ = r.echo.Close() })
	if r.binaries, err = localkube.Build(ctx, localkube.BuildParams{Helm: true}); err != nil {
		return fmt.Errorf("%w\nto build beforehand: go run ./internal/runtime/localkube/cmd/leat-kube build --helm", err)
	}
	kubelet, err := kubeletConfig(r.dir, r.echo.Addr())
	if err != nil {
		return err
	}
	r.cluster, err = localkube.Start(ctx, localkube.Params{
		Binaries: r.binaries, DataDir: filepath.Join(r.dir, "cluster"), Kubelet: kubelet,
	})
	if err != nil {
		return err
	}
	r.end(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
		defer cancel()
		_ = r.cluster.Stop(ctx)
	})
	return r.kubePost(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "leat-admins"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "leat:admins"}]}`)
}

// startHub runs a distributor and two replicas of the tunnel. Nothing is delivered here, so there
// is no gitcache.
func (r *rig) startHub(ctx context.Context, redis string) error {
	distributorAt, err := listen()
	if err != nil {
		return err
	}
	r.distributor = "http://" + distributorAt.Addr().String()
	if r.hub, err = r.startReplica(redis); err != nil {
		return err
	}
	if r.far, err = r.startReplica(redis); err != nil {
		return err
	}
	r.door = chaos.New(chaos.Params{Target: r.hub, TLS: r.ca.server(), TargetTLS: r.ca.client()})
	if err := r.door.Listen(); err != nil {
		return err
	}
	r.end(r.door.Close)
	internal, err := listen()
	if err != nil {
		return err
	}
	r.run("distributor", func(ctx context.Context) error {
		cfg := distributor.Config{}
		if err := configure("distributor", &cfg, map[string]string{
			"LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + filepath.Join(r.dir, "leat.db"),
			"LEAT_DISTRIBUTOR_DATA_DIR":     filepath.Join(r.dir, "distributor"),
			"LEAT_DISTRIBUTOR_ADMIN_TOKEN":  adminToken,
			"LEAT_GITCACHE_URL":             "http://127.0.0.1:1", "LEAT_TUNNEL_URL": "https://" + r.door.Addr(),
			"LEAT_DISTRIBUTOR_PUBLIC_URL": r.distributor, "LEAT_ALLOW_LOCAL_AGENTS": "true", // people sign in by a provider of this machine
			"LEAT_LOG_LEVEL": "error", "LEAT_DRAIN_TIMEOUT": drainTimeout, "LEAT_DISTRIBUTOR_SIGNING_KEY_LEAD": "11s",
		}); err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.Serve.InternalListener = distributorAt, internal
		return distributor.Run(ctx, cfg)
	})
	if err := waitOK(ctx, http.DefaultClient, "http://"+internal.Addr().String()+"/readyz"); err != nil {
		return fmt.Errorf("wait for the distributor: %w", err)
	}
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: r.distributor, Tokens: identity.StaticToken(adminToken), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		return err
	}
	r.fleet = fleetv1connect.NewFleetServiceClient(client.HTTP, client.BaseURL, client.Options...)
	answer, err := r.fleet.CreateAccessToken(ctx, &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		return fmt.Errorf("create an access token: %w", err)
	}
	r.token = answer.GetAccessToken()
	r.people = r.person()
	return nil
}

// startReplica runs a tunnel and returns its address.
func (r *rig) startReplica(redis string) (string, error) {
	listener, err := listen()
	if err != nil {
		return "", err
	}
	peers, err := listen()
	if err != nil {
		return "", err
	}
	address := listener.Addr().String()
	r.run("tunnel at "+address, func(ctx context.Context) error {
		cfg := tunnel.Config{PeerListener: peers}
		if err := configure("tunnel", &cfg, map[string]string{
			"LEAT_DISTRIBUTOR_URL": r.distributor, "LEAT_LOG_LEVEL": "error", "LEAT_DRAIN_TIMEOUT": drainTimeout,
			"LEAT_TUNNEL_AUDIT_OUTPUT": "none", "LEAT_TUNNEL_CLUSTER_DOMAIN": clusterDomain,
			"LEAT_TLS_CERT_FILE": r.ca.certFile, "LEAT_TLS_KEY_FILE": r.ca.keyFile,
			"LEAT_REDIS_URL": redis, "LEAT_TUNNEL_ADVERTISE_URL": "https://" + peers.Addr().String(), "LEAT_TUNNEL_PEER_CA_FILE": r.ca.caFile,
		}); err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.Serve.InternalListenAddr = listener, ""
		return tunnel.Run(ctx, cfg)
	})
	return address, nil
}

// startAgent enrols an agent for its own cluster and waits until requests reach its API server
// through both replicas.
func (r *rig) startAgent(ctx context.Context, name, kubeconfig string, settings map[string]string) error {
	if _, err := r.fleet.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{{
		Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: name}}},
	}}}); err != nil {
		return fmt.Errorf("create cluster %s: %w", name, err)
	}
	return r.joinAgent(ctx, name, kubeconfig, settings)
}

// joinAgent does the same for a cluster that is there. Its name is its path, which has a project.
func (r *rig) joinAgent(ctx context.Context, name, kubeconfig string, settings map[string]string) error {
	joined, err := r.fleet.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: objectname.Display(name)})
	if err != nil {
		return fmt.Errorf("create a join token: %w", err)
	}
	environment := map[string]string{
		"LEAT_AGENT_HUB_URL": r.distributor, "LEAT_AGENT_HUB_CA_FILE": r.ca.caFile,
		"LEAT_AGENT_JOIN_TOKEN": joined.GetJoinToken(), "LEAT_AGENT_DATA_DIR": filepath.Join(r.dir, "agent-"+name),
		"LEAT_AGENT_KUBECONFIG": kubeconfig, "LEAT_LOG_LEVEL": "error",
		// Several agents share the cluster: each keeps local what the cluster can hold only once.
		"LEAT_AGENT_LOCAL_IDENTITY": "true", "LEAT_AGENT_CLUSTER_VIEW": "false", "LEAT_AGENT_SERVICE_PROXY_ALLOW": promService,
	}
	for key, value := range settings {
		environment[key] = value
	}
	r.run("agent "+name, func(ctx context.Context) error {
		cfg := agent.Config{}
		if err := configure("agent", &cfg, environment); err != nil {
			return err
		}
		listener, err := listen()
		if err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.ServiceDial = listener, r.dialService
		return agent.Run(ctx, cfg)
	})
	for _, way := range []string{name, overHop + name} {
		if err := waitOK(ctx, r.people, r.url(way)+"/readyz"); err != nil {
			return fmt.Errorf("wait for the agent %s: %w", way, err)
		}
	}
	return nil
}

// run runs a service until the rig stops.
func (r *rig) run(name string, service func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := service(ctx); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintf(os.Stderr, "%s ended with: %v\n", name, err)
		}
	}()
	r.end(func() {
		cancel()
		<-done
	})
}

// configure fills a Config like a program with these environment variables.
func configure(program string, cfg interface{ Bind(s *config.Set) }, environment map[string]string) error {
	hubkeys.Env(program, environment)
	set := config.New(program, func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
	cfg.Bind(set)
	return set.Parse(nil)
}

func listen() (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
}
