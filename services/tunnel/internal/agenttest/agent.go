// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package agenttest is the other side of the tunnel for tests: it dials a hub over real TCP and serves HTTP/2 on the
// connection, as an agent does. It follows docs/protocol/tunnel.md and shares no code with the hub's side.
package agenttest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/rpcerr"
)

// Options say how an agent connects.
type Options struct {
	// Addr is the hub's address, host:port.
	Addr string
	// Token is the agent's access token.
	Token string
	// ID is the connection's id.
	ID string
	// Handler is the cluster's API server. It sees requests as an API server does, without the tunnel's prefix.
	Handler http.Handler
	// Agent answers the calls of AgentService. Nil: there are none.
	Agent http.Handler
	// TLS makes the agent connect with TLS. Nil means without.
	TLS *tls.Config
	// MaxStreams is the number of requests at once that the agent allows. Zero means 1000.
	MaxStreams uint32
}

// Agent is a connected agent.
type Agent struct {
	conn *gate
	done chan struct{}
}

// Connect dials the hub and fails the test when it does not agree. The agent is closed at the test's end.
func Connect(tb testing.TB, opts Options) *Agent {
	tb.Helper()
	agent, err := Dial(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("connect agent: %v", err)
	}
	tb.Cleanup(agent.Close)
	return agent
}

// Dial dials the hub. The error is the hub's when it refused.
func Dial(ctx context.Context, opts Options) (*Agent, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("dial hub: %w", err)
	}
	if opts.TLS != nil {
		conn = tls.Client(conn, opts.TLS)
	}
	reader := bufio.NewReader(conn)
	if err := handshake(conn, reader, opts); err != nil {
		_ = conn.Close()
		return nil, err
	}
	agent := &Agent{conn: newGate(conn, reader), done: make(chan struct{})}
	go func() {
		defer close(agent.done)
		agent.serve(opts)
	}()
	return agent, nil
}

func handshake(conn net.Conn, reader *bufio.Reader, opts Options) error {
	_, err := fmt.Fprintf(conn, "GET /tunnel/v1/connect HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n"+
		"Authorization: Bearer %s\r\nLeat-Agent-Version: v0.0.0-test\r\nLeat-Connection-Id: %s\r\n\r\n", opts.Token, opts.ID)
	if err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusSwitchingProtocols {
		return rpcerr.FromHTTP(res)
	}
	if got := res.Header.Get("Upgrade"); got != "leat-tunnel/1" {
		return fmt.Errorf("hub switched to %q", got)
	}
	return nil
}

func (a *Agent) serve(opts Options) {
	streams := opts.MaxStreams
	if streams == 0 {
		streams = 1000
	}
	server := &http2.Server{
		MaxConcurrentStreams:         streams,
		MaxUploadBufferPerStream:     512 << 10,
		MaxUploadBufferPerConnection: 512 << 20,
	}
	server.ServeConn(a.conn, &http2.ServeConnOpts{Handler: opts.route()})
	_ = a.conn.Close()
}

// route sends calls of the agent to it, and everything else to the API server.
func (o Options) route() http.Handler {
	cluster := stripPrefix(o.Handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Agent != nil && strings.HasPrefix(r.RequestURI, "/leat.agent.v1.AgentService/") {
			o.Agent.ServeHTTP(w, r)
			return
		}
		cluster.ServeHTTP(w, r)
	})
}

// stripPrefix shows the API server what it would see without a tunnel, in the raw form, too.
func stripPrefix(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.RequestURI, "/kubernetes")
		if !ok {
			http.Error(w, "not for the cluster: "+r.RequestURI, http.StatusTeapot)
			return
		}
		r.RequestURI = rest
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/kubernetes")
		r.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, "/kubernetes")
		next.ServeHTTP(w, r)
	})
}

// Close ends the connection and waits until every request's handler has returned.
func (a *Agent) Close() {
	_ = a.conn.Close()
	a.conn.thaw()
	<-a.done
}

// Done is closed when the connection has ended.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Freeze stops the agent from hearing anything, while its connection stays open: a peer behind a broken network.
func (a *Agent) Freeze() { a.conn.freeze() }

// gate is a connection whose reading side can be shut.
type gate struct {
	net.Conn

	reader *bufio.Reader

	mu     sync.Mutex
	open   *sync.Cond
	frozen bool
}

func newGate(conn net.Conn, reader *bufio.Reader) *gate {
	g := &gate{Conn: conn, reader: reader}
	g.open = sync.NewCond(&g.mu)
	return g
}

// Read implements net.Conn. What arrives while the gate is shut is held back.
func (g *gate) Read(p []byte) (int, error) {
	n, err := g.reader.Read(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.frozen {
		g.open.Wait()
	}
	return n, err
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = true
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = false
	g.open.Broadcast()
}
