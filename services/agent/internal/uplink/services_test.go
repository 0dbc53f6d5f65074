// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// namedService dials one server for every name, and records the names.
type namedService struct {
	addr string

	mu    sync.Mutex
	names []string
}

func (s *namedService) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	s.names = append(s.names, address)
	s.mu.Unlock()
	if s.addr == "" {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("no such host")}
	}
	return new(net.Dialer).DialContext(ctx, network, s.addr)
}

func (s *namedService) dialled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

// servicesHandler is the agent's handler that allows these services, all of which are the server.
func servicesHandler(t *testing.T, s *namedService, roots *x509.CertPool, allow ...string) http.Handler {
	t.Helper()
	var allowed []uplink.Service
	for _, text := range allow {
		service, err := uplink.ParseService(text)
		if err != nil {
			t.Fatal(err)
		}
		allowed = append(allowed, service)
	}
	services, err := uplink.NewServices(uplink.ServiceParams{
		Allow: allowed, Roots: roots, Dial: s.dial, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse("http://api.invalid")
	if err != nil {
		t.Fatal(err)
	}
	return newHandler(t, uplink.HandlerParams{APIServer: base, Transport: broken{}, Services: services})
}

// start serves until the test ends, and returns the server's address.
func start(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestServiceGetsTheRequestAndNobodysCredentials(t *testing.T) {
	t.Parallel()
	type seen struct {
		Method, URI, Host, Body string
		Header                  http.Header
	}
	service := &namedService{addr: start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Strict-Transport-Security", "max-age=1")
		w.Header().Set("Leat-Error-Origin", "hub")
		w.WriteHeader(http.StatusTeapot)
		_ = json.NewEncoder(w).Encode(seen{r.Method, r.RequestURI, r.Host, string(body), r.Header})
	})}
	client, hub := hubSide(t, servicesHandler(t, service, nil, "shop/web:8080"))
	for path, want := range map[string]string{
		"/a%2Fb/c;d?x=1&x=2;3": "/a%2Fb/c;d?x=1&x=2;3", "": "/", "?q=1": "/?q=1", "/": "/", "//x/": "//x/", "/%252e%252e": "/%252e%252e",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		opaque, query, _ := strings.Cut("/services/shop/web:8080"+path, "?")
		req.URL.Opaque, req.URL.RawQuery = opaque, query
		for _, name := range []string{
			"Authorization", "Cookie", "Impersonate-User", "Impersonate-Group", "Leat-Subject", "X-Remote-User", "X-Forwarded-User", "X-Forwarded-For",
			"Proxy-Authorization", "Forwarded", "Impersonate_User",
		} {
			req.Header.Set(name, "stolen")
		}
		req.Header.Set("X-Mine", "kept")
		req.Header.Set("User-Agent", "me")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got seen
		err = json.NewDecoder(res.Body).Decode(&got)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusTeapot || res.Header.Get("Set-Cookie") != "" ||
			res.Header.Get("Strict-Transport-Security") != "" || res.Header.Get("Leat-Error-Origin") != "" {
			t.Fatalf("%q: got %s %v, %v, want the service's answer without what is the hub's to say", path, res.Status, res.Header, err)
		}
		got.Header.Del("Content-Length")
		got.Header.Del("Accept-Encoding")
		if diff := cmp.Diff(seen{"POST", want, "web.shop.svc:8080", "body", http.Header{"X-Mine": {"kept"}, "User-Agent": {"me"}}}, got); diff != "" {
			t.Errorf("%q: the service's view (-want +got):\n%s", path, diff)
		}
	}
	for _, name := range service.dialled() {
		if name != "web.shop.svc:8080" {
			t.Errorf("dialled %s, want web.shop.svc:8080 alone", name)
		}
	}
}

// TestServicesThatNobodyMayReach requests services that are not allowed, and the allowed one in
// other spellings.
func TestServicesThatNobodyMayReach(t *testing.T) {
	t.Parallel()
	service := &namedService{}
	handler := servicesHandler(t, service, nil, "shop/web:8080", "shop/https:safe:443")
	none := servicesHandler(t, service, nil)
	try := func(h http.Handler, path string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		request.RequestURI = path
		request.Header.Set("Impersonate-User", "root")
		var err error
		if request.URL, err = url.ParseRequestURI(path); err != nil {
			t.Fatal(err)
		}
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, request)
		return recorder
	}
	for path, want := range map[string]int{
		"/services/shop/db:5432/": 403, "/services/shop/web:80/": 403, "/services/other/web:8080/": 403, "/services/shop/https:web:8080/": 403,
		"/services/shop/safe:443/": 403, "/services/kube-system/web:8080/": 403,
		"/services/shop/web/": 400, "/services/shop/web:http/": 400, "/services/shop/web:08080/": 400, "/services/shop/web:+8080/": 400,
		"/services/shop/web%3A8080/": 400, "/services/shop%2Fweb:8080/": 400, "/services/shop/evil.example.com:80/": 400,
		"/services/shop/user@web:8080/": 400, "/services/shop/web:8080:9/": 400, "/services/shop/http:web:8080/": 400, "/services//web:8080/": 400,
		"/services/SHOP/web:8080/": 400, "/services/shop/web:8080/../db:5432/": 400, "/services/shop/web:8080/%2e%2E/": 400,
		"/services/shop/web:8080/a%2f..%2fb": 400, `/services/shop/web:8080/..%5cx`: 400, "/services/shop/web:8080/.": 400,
		"/services/shop/web:0/": 400, "/services/shop/web:65536/": 400, "/services/": 400, "/%73ervices/shop/web:8080/": 400,
	} {
		got := try(handler, path)
		if body := got.Body.String(); got.Code != want || !strings.Contains(body, `"kind":"Status"`) || got.Header().Get("Leat-Error-Origin") != "agent" {
			t.Errorf("%s: got %d %s, want a Status %d of the agent", path, got.Code, body, want)
		}
	}
	if got := try(none, "/services/shop/web:8080/"); got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "LEAT_AGENT_SERVICE_PROXY_ALLOW") {
		t.Errorf("without a list: got %d %s, want 403 that names the setting", got.Code, got.Body)
	}
	if names := service.dialled(); len(names) > 0 {
		t.Errorf("dialled %v, want nothing", names)
	}
	if got := try(handler, "/services/shop/web:8080/"); got.Code != http.StatusBadGateway || !strings.Contains(got.Body.String(), "CLUSTER_UNREACHABLE") ||
		!strings.Contains(got.Body.String(), "service shop/web:8080") {
		t.Errorf("service that is not there: got %d %s, want 502 that names it", got.Code, got.Body)
	}
}

func TestParseService(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uplink.Service{
		"shop/web:8080":      {Namespace: "shop", Name: "web", Port: 8080},
		"shop/https:web:443": {Namespace: "shop", Name: "web", Port: 443, TLS: true},
		"shop/https:443":     {Namespace: "shop", Name: "https", Port: 443},
	} {
		if got, err := uplink.ParseService(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "web:80", "shop/web", "shop/*:80", "*/web:80", "shop/web:*", "shop/web:http", "shop/web:0", "shop/web:70000", "shop/http:web:80", "shop/web:80/x",
		"shop/we b:80", "shop/Web:80", "a.b/web:80", "shop/web:080",
	} {
		if got, err := uplink.ParseService(text); err == nil || !strings.Contains(err.Error(), "namespace/service:port") {
			t.Errorf("%q: got %+v, %v, want an error that shows the form", text, got, err)
		}
	}
}

// TestRedirectsOfServicesStayBelowThem resolves redirects as a client does.
func TestRedirectsOfServicesStayBelowThem(t *testing.T) {
	t.Parallel()
	service := &namedService{addr: start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = r.Header["X-To"]
		w.WriteHeader(http.StatusTemporaryRedirect)
	})}
	handler := servicesHandler(t, service, nil, "shop/web:80")
	const prefix = "https://hub/clusters/demo/services/shop/web:80"
	for _, test := range []struct{ path, to, want string }{
		{"/a/b", "/login?next=%2Fa#top", prefix + "/login?next=%2Fa#top"},
		{"/a/b", "c", prefix + "/a/c"},
		{"/a/b/", "c", prefix + "/a/b/c"},
		{"/a/b", "http://web.shop.svc:80/x%2Fy", prefix + "/x%2Fy"},
		{"/a/b", "http://WEB.shop.svc/x", prefix + "/x"},
		{"", "/x", prefix + "/x"},
		{"", "", prefix + "/"},
		{"/", "/", prefix + "/"},
		{"/a//b", "/x:y", prefix + "/x:y"},
		{"/", "x?", prefix + "/x?"},
		{"/a", "../../../../other", prefix + "/other"},
		{"/a", "/clusters/prod/api", prefix + "/clusters/prod/api"},
		{"/a", "?x", prefix + "/a?x"},
		{"/a", "https://hub/clusters/prod/api/v1", ""},
		{"/a", "//hub/clusters/prod", ""},
		{"/a", "https://web.shop.svc:80/", ""},
		{"/a", "http://web.shop.svc:81/", ""},
		{"/a", "http://user@web.shop.svc:80/", ""},
		{"/a", "javascript:alert(1)", ""},
		{"/a", "/%2e%2e/%2e%2e/x", ""},
		{"/a", "http://web.shop.svc:80//hub/x", ""},
		{"/a", `/..\..\x`, ""},
		{"/a", "http://[", ""},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/services/shop/web:80"+test.path, nil)
		request.Header.Set("X-To", test.to)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		base, err := url.Parse(prefix + test.path)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if location := recorder.Header().Get("Location"); location != "" {
			to, err := base.Parse(location)
			if err != nil {
				t.Errorf("%s → %s: got %q: %v", test.path, test.to, location, err)
				continue
			}
			got = to.String()
		}
		if recorder.Code != http.StatusTemporaryRedirect || got != test.want {
			t.Errorf("%s → %s: got %d %q (%q), want %q", test.path, test.to, recorder.Code, got, recorder.Header().Get("Location"), test.want)
		}
	}
}

// TestServiceWithTLS verifies that a service is trusted only by the given roots and under its own
// name.
func TestServiceWithTLS(t *testing.T) {
	t.Parallel()
	certificate := selfsigned.New(t, "web.shop.svc")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%d certificates of the caller, %s", len(r.TLS.PeerCertificates), r.TLS.ServerName)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.Pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	handler := func(roots *x509.CertPool) http.Handler {
		return servicesHandler(t, &namedService{addr: server.Listener.Addr().String()}, roots, "shop/https:web:443", "shop/https:other:443")
	}
	for _, test := range []struct {
		name, path string
		roots      *x509.CertPool
		code       int
		body       string
	}{
		{"trusted", "/services/shop/https:web:443/", certificate.Roots(), http.StatusOK, "0 certificates of the caller, web.shop.svc"},
		{"another name", "/services/shop/https:other:443/", certificate.Roots(), http.StatusBadGateway, "CLUSTER_UNREACHABLE"},
		{"unknown roots", "/services/shop/https:web:443/", x509.NewCertPool(), http.StatusBadGateway, "CLUSTER_UNREACHABLE"},
	} {
		recorder := httptest.NewRecorder()
		handler(test.roots).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil))
		if recorder.Code != test.code || !strings.Contains(recorder.Body.String(), test.body) {
			t.Errorf("%s: got %d %s, want %d %s", test.name, recorder.Code, recorder.Body, test.code, test.body)
		}
	}
}

// TestServiceUpgrade echoes over an upgraded connection until the caller ends its direction.
func TestServiceUpgrade(t *testing.T) {
	t.Parallel()
	service := &namedService{addr: start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Authorization") != "" || r.Header.Get("Impersonate-User") != "" || r.RequestURI != "/ws?a" {
			http.Error(w, r.RequestURI+fmt.Sprint(r.Header), http.StatusBadRequest)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: a=b\r\nLeat-Error-Origin: hub\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
		_, _ = io.WriteString(conn, " end")
	})}
	client, hub := hubSide(t, servicesHandler(t, service, nil, "shop/web:80"))
	body, send := io.Pipe()
	defer send.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub+"/services/shop/web:80/ws?a", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Leat-Upgrade", "websocket")
	req.Header.Set("Impersonate-User", "root")
	req.Header.Set("Authorization", "Bearer stolen")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Leat-Upgrade-Status") != "101" || res.Header.Get("Leat-Upgrade") != "websocket" || res.Header.Get("Set-Cookie") != "" ||
		res.Header.Get("Leat-Error-Origin") != "" {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("got %s %v %s, want 200 that stands for 101", res.Status, res.Header, text)
	}
	for _, word := range []string{"one", "two"} {
		_, _ = io.WriteString(send, word)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != word {
			t.Fatalf("got %q, %v, want the echo of %s", got, err, word)
		}
	}
	_ = send.Close()
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != " end" {
		t.Errorf("after the caller's end: got %q, %v, want the other direction go on", rest, err)
	}
}
