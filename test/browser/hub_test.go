// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/test/openid"
)

const (
	adminToken   = "leat_0123456789abcdef0123456789abcdef0123456789abcdef"
	clientSecret = "the secret of the hub at the provider"

	// hubName and clusterDomain are of one site, and evilName is of another.
	hubName       = "hub.leat.test"
	clusterDomain = "clusters.leat.test"
	evilName      = "evil.test"
)

// hub is a distributor and a tunnel behind one front that ends TLS, and a provider.
type hub struct {
	// base is the administrator's connection, without TLS.
	base     rpc.Client
	fleet    fleetv1connect.FleetServiceClient
	sessions fleetv1connect.SessionServiceClient
	front    *front
	caFile   string
}

// start runs a hub whose people are ada and bob of the provider corp.
func start(t *testing.T) *hub {
	t.Helper()
	h, dir := &hub{front: newFront(t)}, t.TempDir()
	h.caFile = filepath.Join(dir, "ca.crt")
	h.front.certificate.Write(t, dir)
	distributorAt, tunnelAt := listen(t), listen(t)
	run(t, "distributor", func(ctx context.Context) error {
		cfg := distributor.Config{}
		if err := configure("distributor", &cfg, map[string]string{
			"LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + filepath.Join(dir, "leat.db"),
			"LEAT_DISTRIBUTOR_DATA_DIR":     filepath.Join(dir, "distributor"),
			"LEAT_DISTRIBUTOR_ADMIN_TOKEN":  adminToken, "LEAT_DISTRIBUTOR_PUBLIC_URL": h.front.url(hubName),
			"LEAT_GITCACHE_URL": "http://127.0.0.1:1", "LEAT_TUNNEL_URL": "http://" + tunnelAt.Addr().String(),
			"LEAT_DISTRIBUTOR_AUDIT_OUTPUT": "none", "LEAT_ALLOW_LOCAL_AGENTS": "true", "LEAT_LOG_LEVEL": "error", "LEAT_DRAIN_TIMEOUT": "2s",
		}); err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.Serve.InternalListenAddr = distributorAt, ""
		return distributor.Run(ctx, cfg)
	})
	run(t, "tunnel", func(ctx context.Context) error {
		cfg := tunnel.Config{}
		if err := configure("tunnel", &cfg, map[string]string{
			"LEAT_DISTRIBUTOR_URL": "http://" + distributorAt.Addr().String(), "LEAT_TUNNEL_AUDIT_OUTPUT": "none",
			"LEAT_TUNNEL_CLUSTER_DOMAIN": clusterDomain, "LEAT_LOG_LEVEL": "error", "LEAT_DRAIN_TIMEOUT": "2s",
		}); err != nil {
			return err
		}
		cfg.Serve.Listener, cfg.Serve.InternalListenAddr = tunnelAt, ""
		return tunnel.Run(ctx, cfg)
	})
	h.front.lead(distributorAt.Addr(), tunnelAt.Addr())
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: "http://" + distributorAt.Addr().String(), Tokens: identity.StaticToken(adminToken), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.base = client
	h.fleet = fleetv1connect.NewFleetServiceClient(client.HTTP, client.BaseURL, client.Options...)
	h.sessions = fleetv1connect.NewSessionServiceClient(client.HTTP, client.BaseURL, client.Options...)
	provider := startProvider(t, h.front.url(hubName))
	if _, err := h.fleet.Apply(await.Context(t), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{
		{Object: &fleetv1.Document_IdentityProvider{IdentityProvider: &fleetv1.IdentityProvider{
			Metadata: &typev1.Metadata{Name: "corp"},
			Spec:     &fleetv1.IdentityProviderSpec{Issuer: provider, ClientId: openid.ClientID, ClientSecret: new(clientSecret)},
		}}},
		{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "berlin"}}}},
	}}); err != nil {
		t.Fatal(err)
	}
	return h
}

// startProvider runs an OpenID provider, and returns its issuer's URL. Its pages are of another site
// than the hub's.
func startProvider(t *testing.T, hub string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = openid.New(openid.Params{
		Issuer: "http://" + server.Listener.Addr().String(), Hub: hub, Secret: clientSecret, People: map[string][]string{"ada": nil, "bob": nil},
	})
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// front is the one door of the hub. It also serves the pages of attackers.
type front struct {
	certificate selfsigned.Certificate
	port        string

	distributor, tunnel atomic.Pointer[httputil.ReverseProxy]

	mu    sync.Mutex
	calls []call
	pages map[string]string // of attackers, by host and path
}

// call is a request that a browser made, and what it was answered.
type call struct {
	method, host, path, site string
	// cookies are the names of its cookies.
	cookies []string
	status  int
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{certificate: selfsigned.New(t, hubName, evilName, "*."+clusterDomain), pages: map[string]string{}}
	server := httptest.NewUnstartedServer(f)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{f.certificate.Pair}, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	_, f.port, _ = net.SplitHostPort(server.Listener.Addr().String())
	return f
}

// url returns the address of a host of the front.
func (f *front) url(host string) string { return "https://" + net.JoinHostPort(host, f.port) }

// lead sets where the front leads.
func (f *front) lead(distributor, tunnel net.Addr) {
	for to, proxy := range map[net.Addr]*atomic.Pointer[httputil.ReverseProxy]{distributor: &f.distributor, tunnel: &f.tunnel} {
		target := &url.URL{Scheme: "http", Host: to.String()}
		proxy.Store(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		}})
	}
}

// show serves a page at a path of any other host than the hub's.
func (f *front) show(host, path, html string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages[host+path] = html
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	c := call{method: r.Method, host: host, path: r.URL.Path, site: r.Header.Get("Sec-Fetch-Site")}
	for _, cookie := range r.Cookies() {
		c.cookies = append(c.cookies, cookie.Name)
	}
	recorded := &recorder{ResponseWriter: w, status: http.StatusOK}
	f.serve(recorded, r, host)
	c.status = recorded.status
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
}

func (f *front) serve(w http.ResponseWriter, r *http.Request, host string) {
	f.mu.Lock()
	page, isPage := f.pages[host+r.URL.Path]
	f.mu.Unlock()
	switch {
	case isPage:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(page))
	case host == evilName || r.URL.Path == "/favicon.ico":
		http.NotFound(w, r)
	case strings.HasPrefix(r.URL.Path, "/clusters/"), strings.HasSuffix(host, "."+clusterDomain):
		f.tunnel.Load().ServeHTTP(w, r)
	default:
		f.distributor.Load().ServeHTTP(w, r)
	}
}

// seen returns the calls that browsers have made to the hub since the last time.
func (f *front) seen() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.calls
	f.calls = nil
	return slices.DeleteFunc(all, func(c call) bool { return c.host == evilName || c.path == "/favicon.ico" })
}

type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// run runs a service until the test ends.
func run(t *testing.T, name string, service func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := await.Value(t, name+" to end", done); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with: %v", name, err)
		}
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

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
