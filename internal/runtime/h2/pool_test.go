// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// pooled returns a client whose transport speaks HTTP/2 by a pool, with a server and how many
// connections were made to it.
func pooled(t *testing.T, handler http.Handler, configure func(*httptest.Server)) (client *http.Client, url string, conns *atomic.Int64) {
	t.Helper()
	conns = &atomic.Int64{}
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	configure(server)
	server.StartTLS()
	transport, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("the test server's client has another transport")
	}
	transport = &http.Transport{TLSClientConfig: transport.TLSClientConfig.Clone()}
	pool := h2.NewPool(settings(), budget(t, 1<<30))
	pool.Install(transport)
	t.Cleanup(func() {
		pool.CloseIdleConnections()
		transport.CloseIdleConnections()
		server.Close()
	})
	return &http.Client{Transport: pool.Before(transport)}, server.URL, conns
}

func (s *echoing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.protocols = append(s.protocols, r.Proto)
	s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(append([]byte("got "), body...))
}

// echoing answers with what it got, and remembers by which version.
type echoing struct {
	mu        sync.Mutex
	protocols []string
}

func post(t *testing.T, client *http.Client, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, url, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req) // its body cannot be had again
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != "got "+body {
		t.Errorf("got %q, %v, want the body back", got, err)
	}
}

// TestPoolUsesOneConnection sends requests one after the other.
func TestPoolUsesOneConnection(t *testing.T) {
	t.Parallel()
	handler := &echoing{}
	client, url, conns := pooled(t, handler, func(*httptest.Server) {})
	for range 20 {
		post(t, client, url, "something")
	}
	if n := conns.Load(); n != 1 || handler.protocols[0] != "HTTP/2.0" {
		t.Errorf("got %d connections and %s, want one with HTTP/2", n, handler.protocols[0])
	}
}

// TestPoolOpensMoreConnectionsWhereOneIsFull asks for more at once than a connection takes.
func TestPoolOpensMoreConnectionsWhereOneIsFull(t *testing.T) {
	t.Parallel()
	const each, all = 10, 35
	var arrived sync.WaitGroup
	arrived.Add(all)
	client, url, conns := pooled(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived.Done()
		arrived.Wait() // all of them are there at once
		_, _ = w.Write(append([]byte("got "), body...))
	}), func(s *httptest.Server) { s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: each} })
	var requests sync.WaitGroup
	for range all {
		requests.Go(func() { post(t, client, url, "something") })
	}
	requests.Wait()
	if n := conns.Load(); n < all/each+1 {
		t.Errorf("got %d connections, want at least %d", n, all/each+1)
	}
}

// TestPoolOutlivesConnections has the server end its connections between requests.
func TestPoolOutlivesConnections(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	client, url, conns := pooled(t, &echoing{}, func(s *httptest.Server) { server = s })
	for i := range 10 {
		post(t, client, url, "something")
		server.CloseClientConnections()
		await(t, "the next connection", func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(req)
			if err != nil {
				return false // the end was not noticed yet
			}
			_ = res.Body.Close()
			return conns.Load() > int64(i+1)
		})
	}
}

// TestPoolLeavesOldServersToTheTransport has a server that knows no HTTP/2.
func TestPoolLeavesOldServersToTheTransport(t *testing.T) {
	t.Parallel()
	handler := &echoing{}
	client, url, _ := pooled(t, handler, func(s *httptest.Server) { s.EnableHTTP2 = false })
	for range 3 {
		post(t, client, url, "something")
	}
	if handler.protocols[0] != "HTTP/1.1" {
		t.Errorf("got %s, want HTTP/1.1", handler.protocols[0])
	}
}

// TestPoolGivesUpOnServersThatHangUp has a server end each connection before it has said anything.
func TestPoolGivesUpOnServersThatHangUp(t *testing.T) {
	t.Parallel()
	client, url, conns := pooled(t, &echoing{}, func(s *httptest.Server) {
		s.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
		s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) { _ = conn.Close() },
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := client.Do(req); err == nil {
		_ = res.Body.Close()
		t.Errorf("got %s, want an error", res.Status)
	}
	if n := conns.Load(); n > 3 {
		t.Errorf("the server was dialled %d times for one request", n)
	}
}

// TestPoolGivesUpOnServersThatTakeNothing has a server that never takes a request.
func TestPoolGivesUpOnServersThatTakeNothing(t *testing.T) {
	t.Parallel()
	client, url, conns := pooled(t, &echoing{}, func(s *httptest.Server) {
		s.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
		s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
				framer := http2.NewFramer(conn, conn)
				_ = framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			},
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := client.Do(req); !errors.Is(err, h2.ErrFull) {
		if err == nil {
			_ = res.Body.Close()
		}
		t.Errorf("got %v, want ErrFull", err)
	}
	if n := conns.Load(); n > 3 {
		t.Errorf("the server was dialled %d times for one request", n)
	}
}
