// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/loopback"
)

// TestLink sends bytes through a link to a peer that echoes them: they must arrive in order, one
// round trip later, followed by the end.
func TestLink(t *testing.T) {
	t.Parallel()
	const rtt = 40 * time.Millisecond
	address := loopback.Addr(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	target := echo(t)
	go func() { served <- serveLink(ctx, address, target, rtt) }()
	defer func() {
		cancel()
		<-served
	}()
	conn := dial(t, address)
	sent := make([]byte, 4<<20)
	_, _ = rand.Read(sent) // never fails
	began := time.Now()
	go func() {
		_, _ = conn.Write(sent) // a failure shows in the echo
		_ = conn.CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes that differ from the %d that were sent", len(got), len(sent))
	}
	if took := time.Since(began); took < rtt {
		t.Errorf("got everything back after %v, want at least %v", took, rtt)
	}
}

func echo(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return // the test is over
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn) // a failure shows at the other end
	}()
	return listener.Addr().String()
}

// dial connects as soon as a server listens.
func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	for t.Context().Err() == nil {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = conn.Close() })
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			t.Fatalf("got %T, want TCP", conn)
		}
		return tcp
	}
	t.Fatal("nobody listens")
	return nil
}

func TestAPIServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(apiServerDouble())
	t.Cleanup(server.Close)
	for _, c := range []struct {
		method, path, body string
		status, size       int
	}{
		{http.MethodGet, pathSmall, "", http.StatusOK, 1025},
		{http.MethodGet, pathBulk + "?bytes=300000", "", http.StatusOK, 300_000},
		{http.MethodGet, pathBulk + "?bytes=many", "", http.StatusBadRequest, -1},
		{http.MethodPut, pathBulk, "12345", http.StatusOK, 1},
		{http.MethodGet, "/apis", "", http.StatusNotFound, -1},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, bytes.NewBufferString(c.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != c.status || (c.size >= 0 && len(body) != c.size) {
			t.Errorf("%s %s: got status %d, %d bytes and %v, want %d and %d bytes", c.method, c.path, response.StatusCode, len(body), err, c.status, c.size)
		}
	}
}

func TestUnknownPart(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"link"}, {"unknown", "a", "b", "c"}} {
		if err := runPart(t.Context(), args); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want ErrUsage", args, err)
		}
	}
}
