// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// network connects clients with one HTTP server in memory, and breaks connections on demand.
type network struct {
	handler http.Handler

	mu    sync.Mutex
	conns []*wire
	down  bool
	// doom returns after how many bytes the server's side of a new connection breaks, and whether
	// it then falls silent instead of closing. Zero bytes: it does not break.
	doom func() (bytes int, silent bool)
}

var errDown = errors.New("connection refused")

func (n *network) accept(w *wire) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return errDown
	}
	if n.doom != nil {
		w.left, w.silent = n.doom()
		w.doomed = w.left > 0
	}
	n.conns = append(n.conns, w)
	return nil
}

// dial implements http.Transport.DialContext.
func (n *network) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	listener := &once{closed: make(chan struct{})}
	w := &wire{Conn: server, done: sync.OnceFunc(func() { close(listener.closed) })}
	listener.conn = w
	if err := n.accept(w); err != nil {
		return nil, err
	}
	go func() {
		s := &http.Server{Handler: n.handler}
		_ = s.Serve(listener) // returns when the connection is closed
	}()
	return client, nil
}

// each calls a function for every connection, and drops the closed ones.
func (n *network) each(do func(*wire)) {
	n.mu.Lock()
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for _, c := range conns {
		do(c)
	}
}

// cut closes all connections.
func (n *network) cut() { n.each(func(w *wire) { _ = w.Close() }) }

// freeze silences all connections, while both sides consider them open.
func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.conns {
		w.mu.Lock()
		w.doomed, w.silent, w.left = true, true, 0
		w.mu.Unlock()
	}
}

func (n *network) setDown(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	if down {
		n.cut()
	}
}

func (n *network) setDoom(doom func() (int, bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.doom = doom
}

// wire is the server's side of a connection.
type wire struct {
	net.Conn

	done func()

	mu     sync.Mutex
	doomed bool
	silent bool
	left   int
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	part, broken, silent := len(p), w.doomed && len(p) > w.left, w.silent
	if broken {
		part = w.left
	}
	w.left -= part
	w.mu.Unlock()
	if part > 0 { // a pipe waits for a reader even with nothing to write
		if n, err := w.Conn.Write(p[:part]); err != nil || !broken {
			return n, err
		}
	}
	if silent {
		return len(p), nil
	}
	_ = w.Close()
	return part, net.ErrClosed
}

// Close implements net.Conn.
func (w *wire) Close() error {
	defer w.done()
	return w.Conn.Close()
}

// once is a listener for one connection.
type once struct {
	mu     sync.Mutex
	conn   net.Conn
	closed chan struct{}
}

// Accept implements net.Listener.
func (o *once) Accept() (net.Conn, error) {
	o.mu.Lock()
	conn := o.conn
	o.conn = nil
	o.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (o *once) Close() error { return nil }

// Addr implements net.Listener.
func (o *once) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// server returns a client for the network's server, which ends with the test.
func (n *network) server(t *testing.T) (*watch.Server, *http.Client, string) {
	t.Helper()
	transport := &http.Transport{DialContext: n.dial, DisableCompression: true}
	t.Cleanup(func() {
		n.cut()
		transport.CloseIdleConnections()
	})
	const base = "http://fake"
	address, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	return watch.NewServer(address, client), client, base
}

// randomDoom breaks every connection after at most the given number of bytes.
func randomDoom(r *rand.Rand, most int) func() (int, bool) {
	return func() (int, bool) { return 1 + r.IntN(most), r.IntN(4) == 0 }
}
