// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// hub is a running tunnel service with a distributor that the test controls.
type hub struct {
	tb   testing.TB
	addr string
	// internal is the listener for probes and scrapes.
	internal net.Listener
	// dial opens connections to the hub. Nil: TCP to addr.
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	issuer *identity.Issuer
	key    ed25519.PrivateKey // the issuer's
	// keysAsked counts how often the keys were fetched.
	keysAsked *atomic.Int32
	audit     *auditLog
	logs      *auditLog
	access    *accessBook
	reception *receptionBook
	url       string            // of the distributor
	transport http.RoundTripper // to it, in a bubble
	down      func()            // takes the distributor away
	stop      func()            // begins the drain
	service   func() tunnelv1connect.TunnelServiceClient
	done      chan error
}

// startHub starts a hub. Everything it started is gone when the test ends, which is checked.
func startHub(tb testing.TB, change func(*tunnel.Config)) *hub {
	tb.Helper()
	return newHub(tb).replica(change)
}

// newHub is a hub without a tunnel.
func newHub(tb testing.TB) *hub {
	tb.Helper()
	checkLeaks(tb)
	h := bareHub(tb)
	h.url = startDistributor(tb, h)
	return h
}

// checkLeaks fails the test when goroutines that were started from now on outlive it.
func checkLeaks(tb testing.TB) {
	tb.Helper()
	before := goleak.IgnoreCurrent()
	tb.Cleanup(func() {
		goleak.VerifyNone(tb, before,
			// A Redis that was restarted meanwhile ends later.
			goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
			goleak.IgnoreAnyFunction("os/exec.(*Cmd).writerDescriptor.func1"),
			// A closed Redis client whose server was gone looks for it once more, up to six seconds later.
			goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
	})
}

// bareHub has what all replicas have in common, and serves nothing.
func bareHub(tb testing.TB) *hub {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	h := &hub{tb: tb, issuer: identity.NewIssuer(key), key: key, keysAsked: &atomic.Int32{}, access: &accessBook{}}
	h.reception = &receptionBook{hub: h}
	return h
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return listener
}

// configOf returns the default settings for a tunnel beside a distributor.
func configOf(distributor string) tunnel.Config {
	var cfg tunnel.Config
	cfg.Bind(config.New("tunnel", func(string) (string, bool) { return "", false }))
	cfg.Serve.InternalListenAddr = ""
	cfg.DistributorURL, cfg.Service = distributor, hubkeys.Config(identity.ServiceTunnel)
	return cfg
}

// replica starts another replica of the hub.
func (h *hub) replica(change func(*tunnel.Config)) *hub {
	h.tb.Helper()
	return h.replicaAt(listen(h.tb), change)
}

// replicaAt starts one that listens there.
func (h *hub) replicaAt(listener net.Listener, change func(*tunnel.Config)) *hub {
	tb, another := h.tb, *h
	h = &another
	h.audit, h.logs, h.done, h.service = &auditLog{}, &auditLog{}, make(chan error, 1), sync.OnceValue(h.newService)
	h.addr = listener.Addr().String()
	if _, isTCP := listener.Addr().(*net.TCPAddr); isTCP && h.dial == nil { // in a synctest bubble nothing may wait for a port
		h.internal = listen(tb)
	}
	cfg := configOf(h.url)
	cfg.Serve.Listener, cfg.Serve.DrainTimeout, cfg.Serve.InternalListener = listener, 5*time.Second, h.internal
	cfg.Telemetry.LogOutput, cfg.Audit.Writer = h.logs, h.audit
	if change != nil {
		change(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() { h.done <- tunnel.Run(ctx, cfg) }()
	tb.Cleanup(func() {
		stop()
		if err := <-h.done; err != nil {
			tb.Errorf("Run: %v", err)
		}
		if tb.Failed() {
			tb.Logf("hub's log:\n%s", h.logs)
		}
	})
	return h
}

// distributor serves the keys and the decisions.
func (h *hub) distributor() http.Handler {
	h.tb.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		h.keysAsked.Add(1)
		keys, err := h.issuer.JWKS()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(keys)
	})
	services := hubkeys.Verifier(identity.ServiceDistributor, identity.ServiceTunnel)
	path, handler := distributorv1connect.NewAccessServiceHandler(h.access)
	mux.Handle(path, identity.Authenticate(services, handler))
	path, handler = distributorv1connect.NewReceptionServiceHandler(h.reception)
	mux.Handle(path, identity.Authenticate(services, handler))
	mux.Handle(distributorv1connect.NewDistributorServiceHandler(h.reception))
	return mux
}

// startDistributor serves it on a port.
func startDistributor(tb testing.TB, h *hub) string {
	tb.Helper()
	server := httptest.NewUnstartedServer(h.distributor())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	h.down = sync.OnceFunc(func() {
		server.CloseClientConnections()
		server.Close()
	})
	tb.Cleanup(h.down)
	return server.URL
}

// accessBook decides: person, then cluster. It counts the questions.
type accessBook struct {
	mu      sync.Mutex
	answers map[string]*distributorv1.CheckAccessResponse
	asked   int
}

func (b *accessBook) CheckAccess(_ context.Context, req *distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if req.GetCluster() != "" { // the prober's own question has no cluster, and does not count
		b.asked++
	}
	if answer, ok := b.answers[req.GetSubject()+" "+req.GetCluster()]; ok {
		return answer, nil
	}
	return &distributorv1.CheckAccessResponse{}, nil
}

// grant lets a person reach a cluster under a name and groups.
func (b *accessBook) grant(user, cluster string, groups ...string) {
	b.grantUID(user, cluster, "uid-"+cluster, groups...)
}

// grantUID lets a person reach the cluster that has that name and uid.
func (b *accessBook) grantUID(user, cluster, uid string, groups ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == nil {
		b.answers = map[string]*distributorv1.CheckAccessResponse{}
	}
	b.answers["user:"+user+" "+cluster] = &distributorv1.CheckAccessResponse{
		Allowed: true, User: user, Groups: groups, MaxAge: durationpb.New(30 * time.Second), ClusterUid: uid,
		Permissions: permissionsOf(groups),
	}
}

// permissionsOf returns what the roles of these groups hold, of what agents and the tunnel ask for.
func permissionsOf(groups []string) []*optionsv1.Permission {
	var held []*optionsv1.Permission
	add := func(resource string, verbs ...string) {
		for _, verb := range verbs {
			held = append(held, &optionsv1.Permission{Verb: verb, Resource: resource})
		}
	}
	isAdmin, isOperator := slices.Contains(groups, "leat:admins"), slices.Contains(groups, "leat:operators")
	if isAdmin || isOperator || slices.Contains(groups, "leat:viewers") {
		add("services/inventory", "get")
		add("services/events", "watch")
	}
	if isAdmin || isOperator {
		add("services", "sync")
		add("services/diff", "get")
	}
	if isAdmin {
		add("sessions", "list")
		add("recordings", "list", "get")
	}
	return held
}

func (b *accessBook) revoke(user, cluster string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.answers, "user:"+user+" "+cluster)
}

func (h *hub) token(id identity.Identity) string {
	h.tb.Helper()
	token, _, err := h.issuer.Issue(id, identity.ServiceTunnel, time.Hour)
	if err != nil {
		h.tb.Fatal(err)
	}
	return token
}

func (h *hub) user(name string, groups ...string) string {
	return h.token(identity.Identity{Kind: identity.KindUser, Name: name, UID: "uid-" + name, Groups: groups})
}

func (h *hub) cluster(name string) string {
	return h.token(identity.Identity{Kind: identity.KindCluster, Name: name, UID: "uid-" + name})
}

// agent connects an agent, and returns when requests reach it.
func (h *hub) agent(cluster string, api http.HandlerFunc) *agenttest.Agent {
	h.tb.Helper()
	return h.agentWith(agenttest.Options{ID: "c-" + cluster, Handler: api}, cluster)
}

func (h *hub) agentWith(opts agenttest.Options, cluster string) *agenttest.Agent {
	h.tb.Helper()
	opts.Addr = h.addr
	if h.dial != nil && opts.Dial == nil {
		opts.Dial = h.connect
	}
	if opts.Token == "" {
		opts.Token = h.cluster(cluster)
	}
	agent := agenttest.Connect(h.tb, opts)
	await.True(h.tb, "connection "+opts.ID+", or its end", func() bool { return h.sessions()[opts.ID] || isDone(agent) })
	return agent
}

func isDone(agent *agenttest.Agent) bool {
	select {
	case <-agent.Done():
		return true
	default:
		return false
	}
}

// sessions returns the ids of the connections.
func (h *hub) sessions() map[string]bool {
	h.tb.Helper()
	res, err := h.service().ListSessions(h.tb.Context(), nil)
	if err != nil {
		h.tb.Fatalf("ListSessions: %v", err)
	}
	ids := map[string]bool{}
	for _, s := range res.GetSessions() {
		ids[s.GetId()] = true
	}
	return ids
}

// serviceToken returns the token that a service of the hub sends to an audience.
func serviceToken(tb testing.TB, name, audience string) string {
	tb.Helper()
	token, err := hubkeys.Tokens(name, audience).Token(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// newService returns a client of the hub's own API.
func (h *hub) newService() tunnelv1connect.TunnelServiceClient {
	h.tb.Helper()
	h.access.grant("prober", "", "leat:admins")
	tokens := identity.StaticToken(h.user("prober", "leat:admins"))
	params := rpc.ClientParams{BaseURL: "http://" + h.addr, Tokens: tokens, Telemetry: telemetry.Noop()}
	if h.dial != nil {
		params.Transport = h.client(true).Transport
	}
	client, err := rpc.NewClient(params)
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(client.HTTP.CloseIdleConnections)
	return tunnelv1connect.NewTunnelServiceClient(client.HTTP, client.BaseURL, client.Options...)
}

// client returns a client of this hub, which may be one without a port.
func (h *hub) client(http2 bool) *http.Client {
	h.tb.Helper()
	c := client(h.tb, http2)
	if h.dial != nil {
		c.Transport.(*http.Transport).DialContext = h.dial
	}
	return c
}

// connect opens a connection to the hub.
func (h *hub) connect(ctx context.Context) (net.Conn, error) {
	if h.dial != nil {
		return h.dial(ctx, "tcp", h.addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", h.addr)
}

// client returns a client that speaks HTTP/1.1 or HTTP/2 to the hub and never decompresses.
func client(tb testing.TB, http2 bool) *http.Client {
	tb.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 100}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// request makes a request for a cluster, as a person.
func (h *hub) request(ctx context.Context, method, user, cluster, path string, body io.Reader) *http.Request {
	h.tb.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+h.addr+"/clusters/"+cluster+path, body)
	if err != nil {
		h.tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.user(user))
	return req
}

// get returns status and body of a GET.
func (h *hub) get(c *http.Client, user, cluster, path string) (int, string) {
	h.tb.Helper()
	res, body := h.do(c, h.request(h.tb.Context(), http.MethodGet, user, cluster, path, nil))
	return res.StatusCode, body
}

func (h *hub) do(c *http.Client, req *http.Request) (*http.Response, string) {
	h.tb.Helper()
	res, err := c.Do(req)
	if err != nil {
		h.tb.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.tb.Fatalf("read body of %s %s: %v", req.Method, req.URL, err)
	}
	return res, string(body)
}

// auditLog collects lines.
type auditLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *auditLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *auditLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// records returns the lines as objects.
func (l *auditLog) records(tb testing.TB) []map[string]any {
	tb.Helper()
	var records []map[string]any
	for line := range strings.Lines(l.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			tb.Fatalf("audit line %q: %v", line, err)
		}
		records = append(records, record)
	}
	return records
}

// echo answers with the request as the API server saw it.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}
