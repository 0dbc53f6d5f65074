// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// receptionBook holds the distributor's entries of dialled agents, and its answers to their own
// calls.
type receptionBook struct {
	distributorv1connect.UnimplementedDistributorServiceHandler

	hub *hub

	mu       sync.Mutex
	version  int
	clusters map[string]*distributorv1.ReceptiveCluster
}

func (b *receptionBook) ListReceptiveClusters(
	_ context.Context, req *distributorv1.ListReceptiveClustersRequest,
) (*distributorv1.ListReceptiveClustersResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	res := &distributorv1.ListReceptiveClustersResponse{Version: fmt.Sprint("v", b.version)}
	if res.Unchanged = res.GetVersion() == req.GetKnownVersion(); res.GetUnchanged() {
		return res, nil
	}
	for _, c := range b.clusters {
		res.Clusters = append(res.Clusters, c)
	}
	return res, nil
}

func (b *receptionBook) CreateHubToken(_ context.Context, req *distributorv1.CreateHubTokenRequest) (*distributorv1.CreateHubTokenResponse, error) {
	token, err := b.hub.issuer.IssueHubToken(identity.Identity{Kind: identity.KindService, Name: "tunnel"}, "uid-"+req.GetCluster(), req.GetAgentKey())
	return &distributorv1.CreateHubTokenResponse{Token: token}, err
}

// Enroll implements DistributorService: every caller is the agent of demo.
func (b *receptionBook) Enroll(_ context.Context, req *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clusters["demo"]
	b.version++
	b.clusters["demo"] = &distributorv1.ReceptiveCluster{
		Cluster: "demo", ClusterUid: "uid-demo", AgentEndpoint: c.GetAgentEndpoint(), AgentKey: req.GetPublicKey(), IdentityUid: "uid-demo",
	}
	return &distributorv1.EnrollResponse{Cluster: "demo", ClusterUid: "uid-demo"}, nil
}

// GetPlan implements DistributorService.
func (b *receptionBook) GetPlan(context.Context, *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	return &distributorv1.GetPlanResponse{Unchanged: true}, nil
}

// set makes the hub dial a cluster's agent from its next look on.
func (b *receptionBook) set(cluster, endpoint string, key ed25519.PublicKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clusters == nil {
		b.clusters = map[string]*distributorv1.ReceptiveCluster{}
	}
	b.version++
	b.clusters[cluster] = &distributorv1.ReceptiveCluster{
		Cluster: cluster, ClusterUid: "uid-" + cluster, AgentEndpoint: endpoint, AgentKey: key, IdentityUid: "uid-" + cluster,
	}
}

// local lets the hub dial agents on this machine.
func local(change func(*tunnel.Config)) func(*tunnel.Config) {
	return func(cfg *tunnel.Config) {
		cfg.AllowLocalAgents = true
		if change != nil {
			change(cfg)
		}
	}
}

func newKey(tb testing.TB) ed25519.PrivateKey {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func public(key ed25519.PrivateKey) ed25519.PublicKey {
	own, _ := key.Public().(ed25519.PublicKey)
	return own
}

// receptive starts an enrolled agent that waits for the hub, and tells the distributor of it.
func (h *hub) receptive(cluster string, r agenttest.Reception) *agenttest.Receptive {
	h.tb.Helper()
	if r.Key == nil {
		r.Key = newKey(h.tb)
	}
	if r.Hub == nil {
		r.Hub = []ed25519.PublicKey{public(h.key)}
	}
	if r.Handler == nil {
		r.Handler = http.HandlerFunc(echo)
	}
	r.UID, r.Token = "uid-"+cluster, h.cluster(cluster)
	agent := agenttest.Listen(h.tb, r)
	h.reception.set(cluster, agent.Addr, public(r.Key))
	return agent
}

func TestLostConnectionIsDialledAgain(t *testing.T) {
	h := newHub(t)
	h.access.grant("ada", "demo")
	agent := h.receptive("demo", agenttest.Reception{Options: agenttest.Options{ID: "c"}})
	h = h.replica(local(nil))
	for range 3 {
		tunnel := <-agent.Tunnels
		await.True(t, "the agent", func() bool { return h.sessions()["c"] })
		if status, body := h.get(client(t, false), "ada", "demo", "/api"); status != http.StatusOK || body != "GET /api " {
			t.Errorf("got %d %q, want the agent's answer", status, body)
		}
		agent.Cut()
		<-tunnel.Done()
	}
}

// TestHubSeesThroughOthers has other parties at an agent's address. None gets to see a token of the
// agent's key, and none a request.
func TestHubSeesThroughOthers(t *testing.T) {
	cases := map[string]struct {
		want  string // in the log
		serve func(t *testing.T, h *hub)
	}{
		"another key": {want: "wrong_key", serve: func(t *testing.T, h *hub) {
			thief := h.receptive("demo", agenttest.Reception{})
			h.reception.set("demo", thief.Addr, public(newKey(t)))
		}},
		"no TLS": {want: "tls_failed", serve: func(t *testing.T, h *hub) {
			h.reception.set("demo", answering(t, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: leat-home/1\r\n\r\n"), public(newKey(t)))
		}},
		"nobody": {want: "unreachable", serve: func(t *testing.T, h *hub) { h.reception.set("demo", "127.0.0.1:1", public(newKey(t))) }},
		"an agent of another hub": {want: "refused", serve: func(t *testing.T, h *hub) {
			h.receptive("demo", agenttest.Reception{Hub: []ed25519.PublicKey{public(newKey(t))}})
		}},
		"an agent that is not ready": {want: "unexpected_answer", serve: func(_ *testing.T, h *hub) {
			h.receptive("demo", agenttest.Reception{Refuse: func(string) int { return http.StatusServiceUnavailable }})
		}},
		"another cluster's token": {want: "no_session", serve: func(_ *testing.T, h *hub) {
			h.receptive("demo", agenttest.Reception{Options: agenttest.Options{
				ID: "c", Header: http.Header{"Authorization": {"Bearer " + h.cluster("other")}},
			}})
		}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.access.grant("ada", "demo")
			test.serve(t, h)
			h = h.replica(local(nil))
			await.True(t, "the log to tell "+test.want, func() bool { return strings.Contains(h.logs.String(), test.want) })
			if status, _ := h.get(client(t, false), "ada", "demo", "/api/v1/pods"); status != http.StatusServiceUnavailable {
				t.Errorf("got %d, want 503", status)
			}
		})
	}
}

// TestManInBetweenCannotPassTheHubsTokenOn has an attacker with a certificate of their own between
// the hub and an agent that is not enrolled, when there is no key yet by which the hub could know
// it.
func TestManInBetweenCannotPassTheHubsTokenOn(t *testing.T) {
	h := newHub(t)
	man := h.receptive("demo", agenttest.Reception{})
	h.reception.set("demo", man.Addr, nil)
	agent := agenttest.Listen(t, agenttest.Reception{Key: newKey(t), Hub: []ed25519.PublicKey{public(h.key)}})
	h.replica(local(nil))
	got := <-man.Homes
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", agent.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/tunnel/v1/home", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = got.Header
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	if err := <-agent.Refused; !errors.Is(err, identity.ErrTokenInvalid) {
		t.Errorf("got %v, want the token refused by the agent", err)
	}
}

// TestLocalAddressesAreNotDialled unless that is allowed.
func TestLocalAddressesAreNotDialled(t *testing.T) {
	h := newHub(t)
	agent := h.receptive("demo", agenttest.Reception{})
	h = h.replica(nil)
	await.True(t, "the log", func() bool { return strings.Contains(h.logs.String(), "address_forbidden") })
	select {
	case <-agent.Homes:
		t.Error("the agent was dialled")
	default:
	}
}

// answering is the address of a server that sends the same answer to every caller, at once.
func answering(t *testing.T, answer string) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// TestEnrolmentOverADialledConnection has an unknown agent: over the first connection nothing
// passes but enrolment, and then it is dialled with its key pinned.
func TestEnrolmentOverADialledConnection(t *testing.T) {
	h := newHub(t)
	key := newKey(t)
	agent := h.receptive("demo", agenttest.Reception{Key: key, Options: agenttest.Options{ID: "c"}})
	h.reception.set("demo", agent.Addr, nil)
	h = h.replica(local(nil))
	first := <-agent.Homes
	if got := first.Header.Get("Leat-Home-Scope"); got != "enrol" {
		t.Errorf("got scope %q, want enrol", got)
	}
	for path, want := range map[string]int{
		distributorv1connect.DistributorServiceGetPlanProcedure: http.StatusForbidden,
		"/.well-known/jwks.json":                                http.StatusForbidden,
		"/v1/bundles/sha256:00":                                 http.StatusForbidden,
	} {
		if got := call(t, first, path, "{}", ""); got != want {
			t.Errorf("%s before enrolment: got %d, want %d", path, got, want)
		}
	}
	enrol := distributorv1connect.NewDistributorServiceClient(&http.Client{Transport: first}, "http://hub")
	if _, err := enrol.Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: "x", PublicKey: public(key)}); err != nil {
		t.Fatal(err)
	}
	second := <-agent.Homes
	if got := second.Header.Get("Leat-Home-Scope"); got != "" {
		t.Errorf("got scope %q after enrolment, want none", got)
	}
	<-agent.Tunnels
	await.True(t, "the agent", func() bool { return h.sessions()["c"] })
}

// TestHomeLetsOnlyAgentsCallsPass with the agent's own credentials.
func TestHomeLetsOnlyAgentsCallsPass(t *testing.T) {
	h := newHub(t)
	agent := h.receptive("demo", agenttest.Reception{Options: agenttest.Options{ID: "c"}})
	h.replica(local(nil))
	home := <-agent.Homes
	for path, want := range map[string]int{
		distributorv1connect.DistributorServiceGetPlanProcedure:      http.StatusOK,
		"/.well-known/jwks.json":                                     http.StatusOK,
		"/v1/bundles/sha256:00":                                      http.StatusNotFound, // the distributor's answer
		"/v1/bundles/":                                               http.StatusForbidden,
		"/v1/bundles/../secrets":                                     http.StatusForbidden,
		"/v1/bundles/%2e%2e/x":                                       http.StatusForbidden,
		distributorv1connect.AccessServiceCheckAccessProcedure:       http.StatusForbidden,
		distributorv1connect.ReceptionServiceCreateHubTokenProcedure: http.StatusForbidden,
		"/leat.fleet.v1.FleetService/List":                           http.StatusForbidden,
		"/healthz":                                                   http.StatusForbidden,
		"/metrics":                                                   http.StatusForbidden,
		"/":                                                          http.StatusForbidden,
		"/leat.distributor.v1.DistributorService%2FGetPlan":          http.StatusForbidden,
		distributorv1connect.DistributorServiceGetPlanProcedure + "/../../..//": http.StatusForbidden,
	} {
		if got := call(t, home, path, "{}", ""); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	// The hub's own token is not sent anywhere on an agent's behalf.
	if got := call(t, home, distributorv1connect.DistributorServiceReportStatusProcedure, "{}", "agents-own"); got != http.StatusNotImplemented {
		t.Errorf("got %d, want the distributor's answer", got)
	}
}

func call(t *testing.T, over http.RoundTripper, path, body, token string) int {
	t.Helper()
	method := http.MethodPost
	if strings.HasPrefix(path, "/.well") || strings.HasPrefix(path, "/v1") {
		method, body = http.MethodGet, ""
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://hub"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := over.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestOneReplicaDials of two, and when it stops the other one takes its place, without a request
// that fails.
func TestOneReplicaDials(t *testing.T) {
	h := newHub(t)
	h.access.grant("ada", "demo")
	agent := h.receptive("demo", agenttest.Reception{Options: agenttest.Options{ID: "c"}})
	server := redistest.Start(t)
	replicate := local(func(cfg *tunnel.Config) {
		cfg.Serve.DrainTimeout = 50 * time.Second
		cfg.PeerListener = listen(t)
		cfg.RedisURL, cfg.AdvertiseURL = server.URL(), "http://"+cfg.PeerListener.Addr().String()
	})
	a, b := h.replica(replicate), h.replica(replicate)
	first := <-agent.Tunnels
	own := func(r *hub) bool {
		status, _ := r.get(client(t, false), "ada", "demo", "/api")
		return status == http.StatusOK
	}
	await.True(t, "an answer through one replica", func() bool { return own(a) })
	await.True(t, "an answer through the other", func() bool { return own(b) })
	if len(agent.Tunnels) != 0 {
		t.Error("both replicas have dialled")
	}
	dialler, other := a, b
	if has := func(r *hub) bool { return strings.Contains(r.logs.String(), "agent connected") }; has(b) {
		dialler, other = b, a
	}
	dialler.stop()
	ended := first.Done()
	for {
		if !own(other) {
			t.Error("a request failed while the replicas changed")
		}
		select {
		case <-ended:
		default:
			continue
		}
		break
	}
	<-agent.Tunnels
	if !own(other) {
		t.Error("the other replica has not taken over")
	}
}
