// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent"
)

// tunnel is the hub's side of the tunnel: it accepts upgrades and speaks HTTP/2 as the client on
// them.
type tunnel struct {
	hub   *hub
	conns chan *http.ClientConn
	raw   chan net.Conn
}

// startTunnel serves one over TLS, and would rather speak HTTP/2 on it. It returns the file with
// its certificate, too.
func startTunnel(t *testing.T, h *hub) (*tunnel, string) {
	t.Helper()
	tun := &tunnel{hub: h, conns: make(chan *http.ClientConn, 10), raw: make(chan net.Conn, 10)}
	server := httptest.NewUnstartedServer(tun)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	h.tunnelURL = server.URL + "/base"
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return tun, caFile
}

func (tun *tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := tun.hub.authorise(r.Header); err != nil {
		rpcerr.WriteHTTP(w, r, err)
		return
	}
	want := map[string]string{"Connection": "Upgrade", "Upgrade": "leat-tunnel/1"}
	for name, value := range want {
		if got := r.Header.Get(name); got != value || r.URL.Path != "/base/tunnel/v1/connect" || r.Header.Get("Leat-Connection-Id") == "" {
			http.Error(w, fmt.Sprintf("%s %s: got %q, want %q", r.URL.Path, name, got, value), http.StatusBadRequest)
			return
		}
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:   protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return &late{Conn: conn}, nil },
	}
	client, err := transport.NewClientConn(context.WithoutCancel(r.Context()), "http", "agent:80")
	if err != nil {
		return
	}
	tun.raw <- conn
	tun.conns <- client
}

// late sends the 101 in one packet with HTTP/2's first bytes, which the agent has to expect.
type late struct {
	net.Conn

	sent bool
}

func (l *late) Write(p []byte) (int, error) {
	if l.sent {
		return l.Conn.Write(p)
	}
	l.sent = true
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n\r\n"
	n, err := l.Conn.Write(append([]byte(answer), p...))
	return n - len(answer), err
}

// accept waits for the agent's next connection.
func (tun *tunnel) accept(t *testing.T) (*http.ClientConn, net.Conn) {
	t.Helper()
	return await.Value(t, "a tunnel connection", tun.conns), <-tun.raw
}

func send(t *testing.T, via http.RoundTripper, method, path, body string, header http.Header) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header.Clone()
	response, err := via.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func read[T any](t *testing.T, response *http.Response, wantStatus int) (object T) {
	t.Helper()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != wantStatus {
		t.Fatalf("got status %d, want %d: %s", response.StatusCode, wantStatus, content)
	}
	if err := json.Unmarshal(content, &object); err != nil {
		t.Fatalf("read %s: %v", content, err)
	}
	return object
}

type status struct {
	Kind, Reason, Message string
	Items                 []any
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	tun, caFile := startTunnel(t, h)
	startAgent(t, cp, h.url(), t.TempDir(), joinToken, func(c *agent.Config) { c.HubCAFile = caFile })
	client, raw := tun.accept(t)
	bindAdmins(t, cp)
	alice := http.Header{"Impersonate-User": {"alice"}, "Impersonate-Group": {"leat:admins"}}
	const configMaps = "/kubernetes/api/v1/namespaces/default/configmaps"

	t.Run("get as the caller", func(t *testing.T) {
		header := alice.Clone()
		header.Set("Authorization", "Bearer stolen")
		header.Set("Cookie", "a=b")
		header.Set("Impersonate-Extra-leat.dev%2Fcluster", "demo")
		who := read[map[string]any](t, send(t, client, http.MethodPost, "/kubernetes/apis/authentication.k8s.io/v1/selfsubjectreviews",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, withType(header)), http.StatusCreated)
		user := who["status"].(map[string]any)["userInfo"].(map[string]any)
		if user["username"] != "alice" || fmt.Sprint(user["extra"]) != "map[leat.dev/cluster:[demo]]" {
			t.Errorf("user: got %v, want alice with the cluster", user)
		}
	})
	t.Run("rights are the caller's", func(t *testing.T) {
		got := read[status](t, send(t, client, http.MethodGet, configMaps, "", http.Header{"Impersonate-User": {"mallory"}}), http.StatusForbidden)
		if !strings.Contains(got.Message, "mallory") {
			t.Errorf("message: got %q, want it to name mallory", got.Message)
		}
	})
	t.Run("nobody to impersonate", func(t *testing.T) {
		response := send(t, client, http.MethodGet, configMaps, "", http.Header{})
		got := read[status](t, response, http.StatusForbidden)
		if got.Kind != "Status" || response.Header.Get("Leat-Error-Origin") != "agent" {
			t.Errorf("got %+v from %q, want a Status from the agent", got, response.Header.Get("Leat-Error-Origin"))
		}
	})
	t.Run("path and query as they came", func(t *testing.T) {
		path := configMaps + "?fieldSelector=metadata.name%3Dnone&limit=1&limit=1;"
		read[status](t, send(t, client, http.MethodGet, path, "", alice), http.StatusOK)
	})
	t.Run("watch is not buffered", func(t *testing.T) {
		response := send(t, client, http.MethodGet, configMaps+"?watch=1&resourceVersion=0&fieldSelector=metadata.name=seen", "", alice)
		if response.StatusCode != http.StatusOK {
			t.Fatalf("got status %d, want 200", response.StatusCode)
		}
		send(t, client, http.MethodPost, configMaps, `{"metadata":{"name":"seen"}}`, withType(alice))
		line, err := bufio.NewReader(response.Body).ReadString('\n')
		if err != nil || !strings.Contains(line, `"ADDED"`) {
			t.Errorf("event: got %q, %v, want ADDED", line, err)
		}
	})
	t.Run("agent service", func(t *testing.T) { testAgentService(t, h, client) })
	t.Run("nothing else", func(t *testing.T) {
		for _, path := range []string{"/", "/kubernetes", "/metrics", "/healthz"} {
			if got := send(t, client, http.MethodGet, path, "", alice).StatusCode; got != http.StatusNotFound {
				t.Errorf("%s: got %d, want 404", path, got)
			}
		}
	})
	t.Run("reconnect", func(t *testing.T) {
		if err := raw.Close(); err != nil {
			t.Fatal(err)
		}
		again, _ := tun.accept(t)
		read[status](t, send(t, again, http.MethodGet, configMaps, "", alice), http.StatusOK)
	})
}

// TestTunnelAtItsOwnURL connects an agent that cannot use the address that the hub gives.
func TestTunnelAtItsOwnURL(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	tun, caFile := startTunnel(t, h)
	reachable := h.tunnelURL
	h.tunnelURL = "https://leat.invalid"
	startAgent(t, cp, h.url(), t.TempDir(), joinToken, func(c *agent.Config) { c.HubCAFile, c.TunnelURL = caFile, reachable })
	client, _ := tun.accept(t)
	alice := http.Header{"Impersonate-User": {"alice"}, "Impersonate-Group": {"leat:admins"}}
	if got := send(t, client, http.MethodGet, "/healthz", "", alice).StatusCode; got != http.StatusNotFound {
		t.Errorf("got %d, want an agent that answers 404", got)
	}
}

// bindAdmins allows the hub's administrators everything, as deploy/kubernetes/agent.yaml does.
func bindAdmins(t *testing.T, cp *localkube.ControlPlane) {
	t.Helper()
	const binding = `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "leat-admins"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "leat:admins"}]}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		cp.Host()+"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", strings.NewReader(binding))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("bind leat:admins: got %s", response.Status)
	}
}

func withType(header http.Header) http.Header {
	header = header.Clone()
	header.Set("Content-Type", "application/json")
	return header
}

func testAgentService(t *testing.T, h *hub, via http.RoundTripper) {
	d := h.deploy(t, "svc", map[string]string{"a.yaml": configMap("svc-a", "1"), "b.yaml": configMap("svc-b", "1")})
	h.awaitReport(t, "svc", phase(healthy, d))
	client := agentv1connect.NewAgentServiceClient(&http.Client{Transport: via}, "http://agent")

	_, err := client.GetInventory(t.Context(), &agentv1.GetInventoryRequest{Service: "svc"})
	if got := rpcerr.ReasonOf(err); got != errorsv1.Reason_REASON_TOKEN_INVALID {
		t.Errorf("without a subject: got %v, want TOKEN_INVALID", err)
	}
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("Leat-Subject", "user:alice")
	ctx, stop := context.WithTimeout(ctx, await.Patience)
	defer stop()

	inventory, err := client.GetInventory(ctx, &agentv1.GetInventoryRequest{Service: "svc", Page: &typev1.Page{Size: 1}})
	if err != nil || len(inventory.GetObjects()) != 1 || inventory.GetNextPageToken() == "" {
		t.Fatalf("first page: got %v, %v, want one object and a token", inventory, err)
	}
	second, err := client.GetInventory(ctx, &agentv1.GetInventoryRequest{
		Service: "svc", Page: &typev1.Page{Size: 1, Token: inventory.GetNextPageToken()},
	})
	if err != nil || len(second.GetObjects()) != 1 || second.GetObjects()[0].GetRef().GetName() != "svc-b" || second.GetNextPageToken() != "" {
		t.Errorf("second page: got %v, %v, want svc-b and no token", second, err)
	}
	for reason, service := range map[errorsv1.Reason]string{
		errorsv1.Reason_REASON_NOT_FOUND: "nobody", errorsv1.Reason_REASON_FIELD_INVALID: "",
	} {
		if _, err := client.Reconcile(ctx, &agentv1.ReconcileRequest{Service: service}); rpcerr.ReasonOf(err) != reason {
			t.Errorf("reconcile %q: got %v, want %v", service, err, reason)
		}
	}

	for reason, question := range map[errorsv1.Reason]*agentv1.QueryMetricsRequest{
		errorsv1.Reason_REASON_METRICS_NOT_CONFIGURED: {Service: "svc", Metric: agentv1.Metric_METRIC_CPU},
		errorsv1.Reason_REASON_NOT_FOUND:              {Service: "nobody", Metric: agentv1.Metric_METRIC_CPU},
		errorsv1.Reason_REASON_FIELD_INVALID:          {Service: "svc", Metric: 99},
	} {
		if _, err := client.QueryMetrics(ctx, question); rpcerr.ReasonOf(err) != reason {
			t.Errorf("metrics of %v: got %v, want %v", question, err, reason)
		}
	}

	events, err := client.WatchEvents(ctx, &agentv1.WatchEventsRequest{Service: "svc"})
	if err != nil {
		t.Fatal(err)
	}
	send(t, via, http.MethodPatch, "/kubernetes/api/v1/namespaces/default/configmaps/svc-a", `{"data":{"value":"drifted"}}`, http.Header{
		"Impersonate-User": {"alice"}, "Impersonate-Group": {"leat:admins"}, "Content-Type": {"application/merge-patch+json"},
	})
	if _, err := client.Reconcile(ctx, &agentv1.ReconcileRequest{Service: "svc"}); err != nil {
		t.Fatal(err)
	}
	// The agent may notice the change before the request, and put it right without a new phase.
	for {
		if !events.Receive() {
			t.Fatalf("got no more events, want the service to be syncing: %v", events.Err())
		}
		if events.Msg().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_SYNCING {
			break
		}
	}
	// A changed object is corrected, and then there is no difference.
	for {
		diff, err := client.Diff(ctx, &agentv1.DiffRequest{Service: "svc"})
		if err != nil {
			t.Fatal(err)
		}
		if len(diff.GetObjects()) == 0 {
			return
		}
		if !events.Receive() {
			t.Fatalf("got %v and no more events, want no difference in the end: %v", diff, events.Err())
		}
	}
}
