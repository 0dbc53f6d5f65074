// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

// bomb returns size bytes of zeros, compressed.
func bomb(t *testing.T, size int64) []byte {
	t.Helper()
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return compressed.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// allocated returns how many bytes do has allocated.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestSecProbesInflateNothing sends 64 MiB of zeros, compressed to 64 KiB, to every endpoint that
// needs no token.
func TestSecProbesInflateNothing(t *testing.T) {
	url, client := rpctest.Serve(t, newMux(t, serve.NewHealth(), io.Discard))
	compressed := bomb(t, 64<<20)
	for _, path := range []string{
		healthv1.Health_Check_FullMethodName, healthv1.Health_Watch_FullMethodName,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	} {
		for contentType, encoding := range map[string]string{
			"application/proto": "Content-Encoding", "application/connect+proto": "Connect-Content-Encoding", "application/grpc": "Grpc-Encoding",
		} {
			body := compressed
			if contentType != "application/proto" {
				size := len(compressed)
				body = append([]byte{1, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}, compressed...)
			}
			took := allocated(func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", contentType)
				request.Header.Set(encoding, "gzip")
				response, err := client.Do(request)
				if err != nil {
					return // the server has closed the connection, which is also fine
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			})
			if took > 16<<20 {
				t.Errorf("%s as %s: %d MiB were allocated for %d KiB", path, contentType, took>>20, len(body)>>10)
			}
		}
	}
}

// TestSecInternalEndpointsAreNotPublic requires that only the internal listener serves the internal
// endpoints.
func TestSecInternalEndpointsAreNotPublic(t *testing.T) {
	t.Parallel()
	internal := listen(t)
	server := start(t, serve.Config{InternalListener: internal}, http.NotFoundHandler(), newMux(t, serve.NewHealth(), io.Discard))
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if status, _ := get(t, server.client, "http://"+server.addr+path); status != http.StatusNotFound {
			t.Errorf("%s at the public listener: got %d, want 404", path, status)
		}
		if status, _ := get(t, server.client, "http://"+internal.Addr().String()+path); status != http.StatusOK {
			t.Errorf("%s at the internal listener: got %d, want 200", path, status)
		}
	}
}

// TestSecOldestAnonymousConnectionIsClosed holds idle connections open, and requires that
// authenticated callers still get in.
func TestSecOldestAnonymousConnectionIsClosed(t *testing.T) {
	t.Parallel()
	const bound = 8
	server := start(t, serve.Config{AnonymousConnections: bound}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			identity.Verified(r.Context())
		}
	}))
	known := dialRaw(t, server.addr)
	exchange(t, known, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
	idle := make([]net.Conn, 2*bound)
	for i := range idle {
		idle[i] = dialRaw(t, server.addr)
		exchange(t, idle[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // the server accepts it before the next one is dialled
	}
	for i, conn := range idle[:bound] {
		_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("connection %d of %d: got %v, want it closed", i, len(idle), err)
		}
	}
	exchange(t, idle[len(idle)-1], "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	exchange(t, known, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
}

func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// exchange sends a request and waits for the beginning of its answer.
func exchange(t *testing.T, conn net.Conn, request string) {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("send: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
	answer := make([]byte, 4<<10)
	n, err := conn.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") {
		t.Fatalf("got %q, %v, want an answer with 200", answer[:n], err)
	}
}

// TestSecAnonymousRequestsAreBounded sends one anonymous request too many: the oldest is reset, and
// the new one is answered.
func TestSecAnonymousRequestsAreBounded(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*testing.T) *http.Client{"HTTP/1.1": http1Client, "HTTP/2": http2Client} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bound = 4
			entered, canceled := make(chan string), make(chan string, 2*bound)
			server := start(t, serve.Config{AnonymousRequests: bound}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					identity.Verified(r.Context())
				}
				if r.URL.Path == "/" {
					return
				}
				entered <- r.URL.Path
				<-r.Context().Done()
				canceled <- r.URL.Path
			}))
			asks, ended := client(t), make(chan error, 2*bound)
			ctx, leave := context.WithCancel(t.Context())
			wait := func(path, token string) {
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.addr+path, nil)
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				go func() {
					response, err := asks.Do(request)
					if err == nil {
						_ = response.Body.Close()
					}
					ended <- err
				}()
				<-entered
			}
			wait("/known", "good")
			for i := range bound {
				wait(fmt.Sprint("/", i+1), "")
			}
			if status, _ := get(t, asks, "http://"+server.addr+"/"); status != http.StatusOK {
				t.Errorf("one more: got %d, want 200", status)
			}
			if path := <-canceled; path != "/1" {
				t.Errorf("got %s reset, want the oldest anonymous one", path)
			}
			if err := <-ended; err == nil {
				t.Error("the oldest: got an answer, want it reset")
			}
			leave()
			for range bound {
				<-ended
			}
		})
	}
}

// TestSecClientAddress requires that only a trusted proxy can name the caller's address.
func TestSecClientAddress(t *testing.T) {
	t.Parallel()
	tell := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _ := serve.ClientAddress(r)
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		_, _ = fmt.Fprint(w, address, " ", host)
	})
	ask := func(t *testing.T, cfg serve.Config, forwarded ...string) string {
		t.Helper()
		server := start(t, cfg, tell)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header["X-Forwarded-For"] = forwarded
		response, err := server.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(response.Body)
		return string(text)
	}
	trusting := serve.Config{TrustedProxies: []string{"127.0.0.0/8", "10.0.0.0/8"}}
	for name, c := range map[string]struct {
		cfg       serve.Config
		forwarded []string
		want      string
	}{
		"nobody is trusted":            {serve.Config{}, []string{"192.0.2.1"}, "127.0.0.1 127.0.0.1"},
		"the nearest":                  {trusting, []string{"192.0.2.1"}, "192.0.2.1 192.0.2.1"},
		"made up by the caller":        {trusting, []string{"192.0.2.9, 192.0.2.1"}, "192.0.2.1 192.0.2.1"},
		"through two proxies":          {trusting, []string{"192.0.2.9, 192.0.2.1, 10.1.2.3"}, "192.0.2.1 192.0.2.1"},
		"in two headers":               {trusting, []string{"192.0.2.9", "192.0.2.1"}, "192.0.2.1 192.0.2.1"},
		"no address":                   {trusting, []string{"unknown"}, "127.0.0.1 127.0.0.1"},
		"an address of IPv6":           {trusting, []string{"2001:db8::1"}, "2001:db8::1 2001:db8::1"},
		"mapped, and a proxy is alone": {trusting, []string{"::ffff:10.1.2.3"}, "10.1.2.3 10.1.2.3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ask(t, c.cfg, c.forwarded...); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestSecProxyProtocol requires that a trusted load balancer can name the caller's address, and
// that the header of any other peer is refused.
func TestSecProxyProtocol(t *testing.T) {
	t.Parallel()
	tell := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
	header := "PROXY TCP4 192.0.2.1 127.0.0.1 4711 443\r\n"
	ask := func(t *testing.T, trusted, first string) string {
		t.Helper()
		server := start(t, serve.Config{ProxyProtocol: true, TrustedProxies: []string{trusted}}, tell)
		conn := dialRaw(t, server.addr)
		_ = conn.SetDeadline(time.Now().Add(await.Patience))
		if _, err := io.WriteString(conn, first+"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn) // a closed connection also counts as an answer
		return string(answer)
	}
	if got := ask(t, "127.0.0.1", header); !strings.HasSuffix(got, "192.0.2.1:4711") {
		t.Errorf("of a trusted one: got %q", got)
	}
	if got := ask(t, "127.0.0.1", ""); strings.Contains(got, "200 OK") {
		t.Errorf("of a trusted one without a header: got %q, want no answer", got)
	}
	if got := ask(t, "10.0.0.1", header); strings.Contains(got, "200 OK") {
		t.Errorf("of anybody: got %q, want it refused", got)
	}
	if got := ask(t, "10.0.0.1", ""); !strings.Contains(got, "200 OK") {
		t.Errorf("of anybody without a header: got %q, want an answer", got)
	}
}
