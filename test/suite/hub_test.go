// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package suite runs all of Leat in one process, like `leat up`, with real Git, Redis and
// Kubernetes, and follows commits from the push to the cluster.
package suite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/agent"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/gitcache"
	"github.com/leatdev/leat/services/tunnel"
)

const (
	adminToken = "leat_0123456789abcdef0123456789abcdef0123456789abcdef"
	// pause is the time between two questions to the hub.
	pause = 50 * time.Millisecond
)

// hub is a running hub with one cluster.
type hub struct {
	dir                                  string
	ca                                   string    // file with the authority that agents trust; empty: the system's
	log                                  io.Writer // of gitcache, distributor and tunnel; nil: standard error
	upstream                             *gittest.Server
	redis                                *redistest.Server
	cluster                              *localkube.ControlPlane
	fleet                                fleetv1connect.FleetServiceClient
	gitcache, distributor, tunnel, agent *member
}

// member is one service that a test can stop and start again at the same address with the same
// data.
type member struct {
	name string
	addr string
	// internal is the address for probes and scrapes, set after the member has started.
	internal string
	run      func(ctx context.Context, listener net.Listener) error
	stop     func()
}

// start runs the member until stop is called or the test ends.
func (m *member) start(t *testing.T) {
	t.Helper()
	if m.addr == "" {
		m.addr = loopback.Addr(t) // kept from now on: others read it while this member restarts
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", m.addr)
	if err != nil {
		t.Fatalf("listen for %s: %v", m.name, err)
	}
	if m.internal == "" {
		m.internal = loopback.Addr(t)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := m.run(ctx, listener)
		if ctx.Err() == nil {
			t.Errorf("%s ended unexpectedly: %v", m.name, err)
		}
		done <- err
	}()
	stopped := false
	m.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := await.Value(t, "the end of "+m.name, done); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with: %v", m.name, err)
		}
	}
	t.Cleanup(m.stop)
}

func (m *member) url() string { return "http://" + m.addr }

// startHub starts everything and enrols the agent of a cluster named demo.
func startHub(t *testing.T) *hub {
	t.Helper()
	h := startServices(t, nil)
	h.enrol(t)
	return h
}

// startServices starts everything except an agent. The settings are added to the settings of
// gitcache, distributor and tunnel.
func startServices(t *testing.T, settings map[string]string) *hub {
	t.Helper()
	h := startContent(t, settings)
	h.upstream, h.cluster = gittest.New(t), kubetest.Start(t)
	h.tunnel.start(t)
	h.waitReady(t, h.gitcache, h.distributor, h.tunnel)
	return h
}

// startContent starts what agents get their content from: gitcache and the distributor. They may not
// be ready yet. The tunnel has an address, and does not run.
func startContent(t *testing.T, settings map[string]string) *hub {
	t.Helper()
	h := &hub{dir: t.TempDir(), redis: redistest.Start(t)}
	h.gitcache = &member{name: "gitcache", run: func(ctx context.Context, listener net.Listener) error {
		cfg := gitcache.Config{}
		if err := configure("gitcache", &cfg, with(settings, map[string]string{
			"LEAT_REDIS_URL": h.redis.URL(), "LEAT_GITCACHE_DATA_DIR": filepath.Join(h.dir, "gitcache"),
		})); err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.Serve.InternalListenAddr, cfg.Telemetry.LogOutput = listener, h.gitcache.internal, h.log
		return gitcache.Run(ctx, cfg)
	}}
	h.gitcache.start(t)
	// The distributor announces the tunnel's address to agents, and the tunnel calls the
	// distributor: one address has to be chosen first.
	h.tunnel = &member{name: "tunnel", addr: loopback.Addr(t), run: func(ctx context.Context, listener net.Listener) error {
		cfg := tunnel.Config{}
		if err := configure("tunnel", &cfg, with(settings, map[string]string{
			"LEAT_DISTRIBUTOR_URL": h.distributor.url(),
		})); err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.Serve.InternalListenAddr, cfg.Telemetry.LogOutput = listener, h.tunnel.internal, h.log
		return tunnel.Run(ctx, cfg)
	}}
	h.distributor = &member{name: "distributor", run: func(ctx context.Context, listener net.Listener) error {
		environment := with(settings, map[string]string{
			"LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + filepath.Join(h.dir, "leat.db"),
			"LEAT_DISTRIBUTOR_DATA_DIR":     filepath.Join(h.dir, "distributor"),
			"LEAT_DISTRIBUTOR_ADMIN_TOKEN":  adminToken,
			"LEAT_GITCACHE_URL":             h.gitcache.url(), "LEAT_TUNNEL_URL": h.tunnel.url(),
		})
		if environment[asProcess] != "" {
			return runProcess(ctx, h.distributor, listener, environment)
		}
		cfg := distributor.Config{}
		if err := configure("distributor", &cfg, environment); err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.Serve.InternalListenAddr, cfg.Telemetry.LogOutput = listener, h.distributor.internal, h.log
		return distributor.Run(ctx, cfg)
	}}
	h.distributor.start(t)
	h.fleet = h.fleetClient(t, adminToken)
	return h
}

func with(settings, more map[string]string) map[string]string {
	all := maps.Clone(more)
	maps.Copy(all, settings)
	return all
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

// fleetClient speaks to the distributor with the given token.
func (h *hub) fleetClient(t *testing.T, token string) fleetv1connect.FleetServiceClient {
	t.Helper()
	client := h.client(t, token)
	return fleetv1connect.NewFleetServiceClient(client.HTTP, client.BaseURL, client.Options...)
}

// client speaks to the distributor with the given token.
func (h *hub) client(t *testing.T, token string) rpc.Client {
	t.Helper()
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: h.distributor.url(), Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// tunnelToken returns the token with which a user calls the tunnel. It expires after some minutes.
func (h *hub) tunnelToken(t *testing.T) string {
	t.Helper()
	answer, err := h.fleet.CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		t.Fatalf("create an access token: %v", err)
	}
	return answer.GetAccessToken()
}

// waitReady waits until each of the members is ready.
func (h *hub) waitReady(t *testing.T, members ...*member) {
	t.Helper()
	for _, m := range members {
		await.Poll(t, m.name+" to be ready", pause, func() (bool, string) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.internal+"/readyz", nil)
			if err != nil {
				return false, err.Error()
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, err.Error()
			}
			defer response.Body.Close()
			return response.StatusCode == http.StatusOK, response.Status
		})
	}
}

// enrol creates the cluster demo and starts its agent.
func (h *hub) enrol(t *testing.T) {
	t.Helper()
	h.agent = h.join(t, "demo", h.cluster, "agent")
}

// join creates a cluster and starts its agent with a join token, and a data folder of that name.
func (h *hub) join(t *testing.T, name string, cluster *localkube.ControlPlane, folder string) *member {
	t.Helper()
	h.apply(t, &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{
		Metadata: &typev1.Metadata{Name: name},
	}}})
	return h.install(t, name, cluster, folder)
}

// install starts the agent of a cluster that the hub knows.
func (h *hub) install(t *testing.T, name string, cluster *localkube.ControlPlane, folder string) *member {
	t.Helper()
	joined, err := h.fleet.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: name})
	if err != nil {
		t.Fatalf("create a join token: %v", err)
	}
	joining := &member{name: "agent", run: func(ctx context.Context, listener net.Listener) error {
		cfg := agent.Config{}
		if err := configure("agent", &cfg, map[string]string{
			"LEAT_AGENT_HUB_URL": h.distributor.url(), "LEAT_AGENT_JOIN_TOKEN": joined.GetJoinToken(), "LEAT_AGENT_HUB_CA_FILE": h.ca,
			"LEAT_AGENT_DATA_DIR": filepath.Join(h.dir, folder), "LEAT_AGENT_KUBECONFIG": cluster.KubeconfigPath(),
		}); err != nil {
			return err
		}
		cfg.Serve.Listener = listener
		return agent.Run(ctx, cfg)
	}}
	joining.start(t)
	return joining
}

// apply sends documents like `leat apply`.
func (h *hub) apply(t *testing.T, documents ...*fleetv1.Document) {
	t.Helper()
	if _, err := h.fleet.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents}); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// sync requests a fetch and a reconcile now.
func (h *hub) sync(t *testing.T, service string) {
	t.Helper()
	if _, err := h.fleet.SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: service}); err != nil {
		t.Fatalf("sync %s: %v", service, err)
	}
}

// waitService waits until the service's status satisfies the condition, and returns it.
func (h *hub) waitService(t *testing.T, name, what string, condition func(*fleetv1.ServiceStatus) bool) *fleetv1.ServiceStatus {
	t.Helper()
	var last *fleetv1.ServiceStatus
	await.Poll(t, name+" to be "+what, pause, func() (bool, string) {
		answer, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet, name)
		if err != nil {
			return false, err.Error()
		}
		last = answer.GetStatus()
		return condition(last), last.String()
	})
	return last
}

// healthyAt returns the condition "this commit is applied and healthy".
func healthyAt(commit string) func(*fleetv1.ServiceStatus) bool {
	return func(s *fleetv1.ServiceStatus) bool {
		applied := s.GetReport().GetAppliedCommits()
		return s.GetSynced() && s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY && len(applied) > 0 && applied[0] == commit
	}
}

// repository returns a document.
func repository(name, url string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.RepositorySpec{Url: url},
	}}}
}

// service returns a document: the folder at main, on the cluster demo, in a namespace named like
// the service.
func service(name, repo, path string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: name},
		Spec: &fleetv1.ServiceSpec{Cluster: "demo", Namespace: name, Sources: []*typev1.Source{{
			Repository: repo, Path: path, Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
		}}},
	}}}
}

// kubeGet calls the cluster's API server directly, as its administrator, and returns status and
// body.
func (h *hub) kubeGet(t *testing.T, path string) (int, string) {
	t.Helper()
	return get(t, h.cluster.HTTPClient(), h.cluster.Host()+path, "")
}

// codeOf returns the Connect code of an error, for failure texts.
func codeOf(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("%s (%v)", connect.CodeOf(err), err)
}

func TestMain(m *testing.M) {
	agent.ServeRender(os.Args[1:])
	if os.Getenv(asProcess) != "" {
		var cfg distributor.Config
		app.Main("distributor", &cfg, func(ctx context.Context) error { return distributor.Run(ctx, cfg) })
	}
	os.Exit(kubetest.Run(m))
}

// asProcess is the setting that makes the distributor a process of its own. When its member stops, it is
// killed.
const asProcess = "SUITE_DISTRIBUTOR_PROCESS"

// runProcess runs this program as the distributor, with the settings, until ctx is done. Then it is killed,
// and ctx's cause returned.
func runProcess(ctx context.Context, m *member, listener net.Listener, settings map[string]string) error {
	if err := listener.Close(); err != nil { // the process listens there itself
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hubkeys.Env(m.name, settings)
	settings["LEAT_LISTEN_ADDR"], settings["LEAT_INTERNAL_LISTEN_ADDR"] = m.addr, m.internal
	process := exec.CommandContext(ctx, self)
	process.Env = os.Environ()
	for name, value := range settings {
		process.Env = append(process.Env, name+"="+value)
	}
	log := &bytes.Buffer{}
	process.Stdout, process.Stderr = log, log
	ended, err := childproc.Start(process)
	if err != nil {
		return err
	}
	<-ended
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the process ended by itself: %s", log)
}

// metricsOf returns the URL of a member's metrics. An agent has only one listener.
func metricsOf(m *member) string {
	if m.name == "agent" {
		return m.url() + "/metrics"
	}
	return "http://" + m.internal + "/metrics"
}
