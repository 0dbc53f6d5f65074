// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// largestRecord is the largest write of TLS: 16 KiB, and the overhead of encryption (RFC 8446,
// 5.2).
const largestRecord = 16<<10 + 5 + 256

// network lies below TLS, and knows how much was written at once. It can be had to take no more
// than a record at once, until it is closed.
type network struct {
	net.Conn

	largest atomic.Int64
	stuck   atomic.Bool
	begun   chan struct{} // closed when a write is stuck
	closed  chan struct{}
	once    sync.Once
}

func newNetwork(conn net.Conn) *network {
	return &network{Conn: conn, begun: make(chan struct{}), closed: make(chan struct{})}
}

// Write implements net.Conn.
func (n *network) Write(p []byte) (int, error) {
	n.largest.Store(max(n.largest.Load(), int64(len(p)))) // one writes at a time
	if n.stuck.Load() && len(p) > largestRecord {
		close(n.begun)
		<-n.closed
		return 0, net.ErrClosed
	}
	return n.Conn.Write(p)
}

// Close implements net.Conn.
func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return n.Conn.Close()
}

// layer is a layer over a connection that gives access to it, as TLS does.
type layer struct{ net.Conn }

// NetConn returns the connection below.
func (l layer) NetConn() net.Conn { return l.Conn }

// encrypted returns both sides of a connection through TLS, with what lies below the client's and
// the server's.
func encrypted(t *testing.T, coalesce func(net.Conn) net.Conn, handler http.HandlerFunc) (client *h2.Client, near, far *network) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certificates := certified.TLS.Certificates
	certified.Close()
	nearConn, farConn := loopbackPair(t)
	near, far = newNetwork(nearConn), newNetwork(farConn)
	client, _ = over(t, layer{tls.Client(coalesce(near), &tls.Config{InsecureSkipVerify: true})},
		layer{tls.Server(coalesce(far), &tls.Config{Certificates: certificates})}, budget(t, 1<<30), budget(t, 1<<30), handler)
	return client, near, far
}

// TestRecordsLeaveTogether has what one write of HTTP/2 becomes leave at once, and not in a write
// for each record of TLS.
func TestRecordsLeaveTogether(t *testing.T) {
	t.Parallel()
	for _, coalesced := range []bool{false, true} {
		coalesce := func(conn net.Conn) net.Conn { return conn }
		if coalesced {
			coalesce = h2.Coalesce
		}
		client, near, far := encrypted(t, coalesce, func(w http.ResponseWriter, r *http.Request) {
			whole, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("read request: %v", err)
			}
			_, _ = w.Write(whole)
		})
		data, sum := content(1, 4<<20)
		res, err := client.RoundTrip(request(t, t.Context(), http.MethodPost, bytes.NewReader(data)))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := sumOf(res.Body); err != nil || got != sum {
			t.Errorf("coalesced %t: got %v, want all bytes", coalesced, err)
		}
		for side, n := range map[string]*network{"client": near, "server": far} {
			if got := n.largest.Load(); coalesced != (got > 3*largestRecord) {
				t.Errorf("coalesced %t: %s wrote %d bytes at once at most", coalesced, side, got)
			}
		}
	}
}

// TestCoalescedConnectionEndsAtOnce closes a connection whose peer takes nothing, while records
// wait to leave together.
func TestCoalescedConnectionEndsAtOnce(t *testing.T) {
	t.Parallel()
	client, near, _ := encrypted(t, h2.Coalesce, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	_ = get(t, client).Body.Close()
	near.stuck.Store(true)
	asked := make(chan error, 1)
	go func() {
		res, err := client.RoundTrip(request(t, context.WithoutCancel(t.Context()), http.MethodPost, bytes.NewReader(make([]byte, 60<<10))))
		if err == nil {
			_ = res.Body.Close()
		}
		asked <- err
	}()
	_ = receive(t, "write", near.begun)
	closed := make(chan error, 1)
	go func() { closed <- client.Close() }()
	_ = receive(t, "end of the connection", closed)
	if err := receive(t, "end of the request", asked); err == nil {
		t.Error("got an answer over a connection that takes nothing")
	}
}

// TestHandshakeIsNotCoalesced has the first write be TLS's occasion to shake hands, for which
// nothing may be held.
func TestHandshakeIsNotCoalesced(t *testing.T) {
	t.Parallel()
	for range 20 { // the request goes out with the first bytes, or behind them
		client, _, _ := encrypted(t, h2.Coalesce, func(http.ResponseWriter, *http.Request) {})
		req := request(t, t.Context(), http.MethodGet, nil)
		req.Header.Set("Large", strings.Repeat("x", 4<<10))
		res, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
}
