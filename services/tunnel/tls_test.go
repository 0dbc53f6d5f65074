// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestTLS opens the tunnel and uses it over TLS, where servers choose HTTP/2 unless the agent
// offers less.
func TestTLS(t *testing.T) {
	h, ask := secureHub(t, http.HandlerFunc(echo))
	if status, body := ask(h.request(t.Context(), http.MethodGet, "ada", "demo", "/api", nil)); status != http.StatusOK || string(body) != "GET /api " {
		t.Errorf("got %d %q, want 200", status, body)
	}
}

// TestOverTLSWritesLeaveWhole has what HTTP/2 writes at once leave at once, to people and to
// agents. That is more than one record of TLS, which the hub's HTTP/2 only knows to hold together
// as long as every layer in between lets it find the one below TLS.
func TestOverTLSWritesLeaveWhole(t *testing.T) {
	const large, enough = 4 << 20, 32 << 10
	h, ask := secureHub(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write(make([]byte, large))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	for name, method := range map[string]string{"agents": http.MethodPost} {
		h.largestWrite.Store(0)
		await.True(t, "a large write to "+name, func() bool {
			var body io.Reader
			if method == http.MethodPost {
				body = bytes.NewReader(make([]byte, large))
			}
			if status, _ := ask(h.request(t.Context(), method, "ada", "demo", "/api", body)); status != http.StatusOK {
				t.Fatalf("%s: got %d, want 200", method, status)
			}
			return h.largestWrite.Load() >= enough
		})
	}
}

// tallyingHub notes the largest write to a connection that the hub has accepted.
type tallyingHub struct {
	*hub

	largestWrite atomic.Int64
}

type tallyingListener struct {
	net.Listener

	hub *tallyingHub
}

// Accept implements net.Listener.
func (l tallyingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return tallyingConn{conn, l.hub}, err
}

type tallyingConn struct {
	net.Conn

	hub *tallyingHub
}

// Write implements net.Conn.
func (c tallyingConn) Write(p []byte) (int, error) {
	for largest := c.hub.largestWrite.Load(); int64(len(p)) > largest; largest = c.hub.largestWrite.Load() {
		c.hub.largestWrite.CompareAndSwap(largest, int64(len(p)))
	}
	return c.Conn.Write(p)
}

// secureHub is a hub over TLS, to which the agent of a cluster is connected, and Ada's client.
func secureHub(t *testing.T, handler http.Handler) (h *tallyingHub, ask func(*http.Request) (status int, body []byte)) {
	t.Helper()
	certificate := selfsigned.New(t)
	certFile, keyFile := certificate.Write(t, t.TempDir())
	roots := certificate.Roots()
	h = &tallyingHub{}
	h.hub = startHub(t, func(cfg *tunnel.Config) {
		cfg.Serve.TLSCertFile, cfg.Serve.TLSKeyFile = certFile, keyFile
		cfg.Serve.Listener = tallyingListener{cfg.Serve.Listener, h}
	})
	h.access.grant("ada", "demo")
	agenttest.Connect(t, agenttest.Options{
		Addr: h.addr, Token: h.cluster("demo"), ID: "tls", Handler: handler,
		TLS: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}},
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	ask = func(req *http.Request) (int, []byte) {
		req.URL.Scheme = "https"
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, body
	}
	await.True(t, "the agent's connection", func() bool {
		status, _ := ask(h.request(t.Context(), http.MethodGet, "ada", "demo", "/api", nil))
		return status != http.StatusServiceUnavailable
	})
	return h, ask
}
