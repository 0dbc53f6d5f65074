// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package agenttest is the other side of the tunnel for tests: it dials a hub over real TCP and
// serves HTTP/2 on the connection, as an agent does. It follows docs/reference/protocol/tunnel.md
// and shares no code with the hub's side.
package agenttest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
)

// Options set how an agent connects.
type Options struct {
	// Addr is the hub's address, host:port.
	Addr string
	// Dial opens the connection to the hub over the transports "upgrade" and "websocket", and the
	// one that "connect" calls over. Nil: TCP to Addr.
	Dial func(ctx context.Context) (net.Conn, error)
	// Token is the agent's access token.
	Token string
	// ID is the connection's id.
	ID string
	// Handler is the cluster's API server. It sees requests as an API server does, without the
	// tunnel's prefix.
	Handler http.Handler
	// Agent answers the calls of AgentService. Nil: there are none.
	Agent http.Handler
	// Services answers requests for services of the cluster, at paths that begin with /services/. Nil:
	// there are none.
	Services http.Handler
	// TLS makes the agent connect with TLS. Nil means without.
	TLS *tls.Config
	// Transport is "upgrade", "websocket" or "connect". Empty means "upgrade".
	Transport string
	// Header is sent with the request that opens the connection, beside what an agent always sends.
	Header http.Header
	// Renew gives the token with which the connection is prolonged. Nil: it is not.
	Renew func() string
	// OnDrain hears of drain notices. Nil: they are ignored.
	OnDrain func(after time.Duration)
	// OnAttach hears of the hub's introduction, once for each connection. Nil: it is only kept.
	OnAttach func()
	// OnHeartbeat hears of heartbeats. Nil: they are counted only.
	OnHeartbeat func()
	// OldAgent makes the agent one that knows no LinkService.
	OldAgent bool
	// MaxStreams is the number of requests at once that the agent allows. Zero means 1000.
	MaxStreams uint32
}

// Agent is a connected agent.
type Agent struct {
	conn *gate
	done chan struct{}
	link *link
}

// Connect dials the hub and fails the test when it does not agree. The agent is closed at the
// test's end.
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
	conn, err := opts.dial(ctx)
	if err != nil {
		return nil, err
	}
	return newAgent(conn, opts), nil
}

// newAgent serves the hub on a connection.
func newAgent(conn net.Conn, opts Options) *Agent {
	agent := &Agent{conn: newGate(conn), done: make(chan struct{}), link: &link{opts: opts}}
	go func() {
		defer close(agent.done)
		agent.serve(opts)
	}()
	return agent
}

// Heartbeats is the number of heartbeats that have come.
func (a *Agent) Heartbeats() int { return int(a.link.heartbeats.Load()) }

// Attached is the hub's introduction, nil before.
func (a *Agent) Attached() *tunnelv1.AttachRequest { return a.link.attached.Load() }

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
	// A server that was not configured shares channels with others, which those in a bubble of
	// testing/synctest must not.
	_ = http2.ConfigureServer(&http.Server{ReadHeaderTimeout: time.Minute}, server) // fails for settings of TLS alone
	server.ServeConn(a.conn, &http2.ServeConnOpts{Handler: a.link.before(opts.route())})
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
		if o.Services != nil && strings.HasPrefix(r.RequestURI, "/services/") {
			o.Services.ServeHTTP(w, r)
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

// Freeze stops the agent from hearing anything, while its connection stays open: a peer behind a
// broken network.
func (a *Agent) Freeze() { a.conn.freeze() }

// gate is a connection whose reading side can be shut.
type gate struct {
	net.Conn

	mu     sync.Mutex
	open   *sync.Cond
	frozen bool
}

func newGate(conn net.Conn) *gate {
	g := &gate{Conn: conn}
	g.open = sync.NewCond(&g.mu)
	return g
}

// Read implements net.Conn. Bytes that arrive while the gate is shut are held back.
func (g *gate) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
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
