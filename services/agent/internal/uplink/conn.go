// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/agent/internal/carrier"
)

const (
	// spareStreams are for the hub's own calls while people use all others.
	spareStreams = 24
	maxStreams   = 1000 + spareStreams
	maxFrame     = 64 << 10
	maxHeader    = 64 << 10
	// uploadMemory bounds the bytes that people have sent and the API server, or a container, has
	// not read yet.
	uploadMemory = 64 << 20
)

const (
	// A dead peer is noticed within two heartbeats.
	heartbeat   = 20 * time.Second
	pingTimeout = 20 * time.Second
	// drain is how long active requests may continue after a stop.
	drain = 10 * time.Second
)

// conn is one connection: an HTTP/2 server for a single client, the hub.
type conn struct {
	uplink  *Uplink
	base    string
	id      string
	carried *watched
	server  *h2.Server
	served  chan struct{} // closed when the server has ended
	spoken  chan struct{} // closed when the hub has sent something
	drained chan struct{} // closed when the hub wants the agent on another replica
	link    *link
}

// newConn returns a connection that serves nothing before serve.
func newConn(ctx context.Context, u *Uplink, base, id string, carried *carrier.Conn) *conn {
	c := &conn{
		uplink: u, base: base, id: id, carried: newWatched(carried), served: make(chan struct{}),
		spoken: make(chan struct{}), drained: make(chan struct{}),
	}
	c.link = newLink(c)
	c.server = h2.NewServer(context.WithoutCancel(ctx), c.carried, h2.ServerParams{
		Settings: settings(), Budget: u.uploads, Handler: serve.Grown(c.handler()), Logger: u.params.Logger,
	})
	return c
}

// settings are the settings of the agent's side of connections to the hub.
func settings() h2.Settings {
	return h2.Settings{
		Windows: h2.DefaultWindows(), FrameSize: maxFrame, MaxHeaderBytes: maxHeader, MaxStreams: maxStreams,
		PingAfter: heartbeat, PingTimeout: pingTimeout, WriteTimeout: pingTimeout,
	}
}

// handler routes calls about this connection to the link, and all others to the agent.
func (c *conn) handler() http.Handler {
	path, links := tunnelv1connect.NewLinkServiceHandler(c.link, rpc.SmallMessages())
	speak := sync.OnceFunc(func() { close(c.spoken) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		speak()
		if strings.HasPrefix(r.URL.Path, path) {
			links.ServeHTTP(w, r)
			return
		}
		c.link.active.Add(1)
		defer c.link.active.Add(-1)
		c.uplink.params.Handler.ServeHTTP(w, r)
	})
}

// serve answers the hub. It returns true when the hub wants the agent to connect to another
// replica; then the connection stays up. Otherwise it blocks until the connection has ended, or ctx
// is done and the active requests have ended. The caller must register the connection first,
// because the hub may send its notice at once.
func (c *conn) serve(ctx context.Context) (elsewhere bool) {
	go func() {
		defer close(c.served)
		_ = c.server.Serve() // ends by Shutdown or Close, or because the hub is gone
	}()
	select {
	case <-c.drained:
		return true
	case <-c.carried.closed:
		c.end()
		if !c.hasHeard() {
			c.uplink.dialer.Blame(c.base, c.carried.transport)
		}
	case <-ctx.Done():
		c.leave(ctx)
	}
	return false
}

// hasHeard reports whether the hub has ever sent something. A transport that was accepted may still
// carry nothing.
func (c *conn) hasHeard() bool { return hasHappened(c.spoken) }

func (c *conn) isClosed() bool { return hasHappened(c.carried.closed) }

// hasHappened reports whether a channel that only ever closes is closed.
func hasHappened(closed <-chan struct{}) bool {
	select {
	case <-closed:
		return true
	default:
		return false
	}
}

// leave asks the hub to send no new requests, and waits for the active ones. If the hub drains, it
// waits as long as the hub wants; if the agent stops, for a short while.
func (c *conn) leave(ctx context.Context) {
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopping := context.AfterFunc(ctx, func() {
		patience := time.AfterFunc(drain, cancel)
		context.AfterFunc(going, func() { patience.Stop() })
	})
	defer stopping()
	if err := c.server.Shutdown(going); err != nil && !errors.Is(err, context.Canceled) {
		c.uplink.params.Logger.DebugContext(ctx, "tunnel connection did not end gracefully", slog.Any("error", err))
	}
	c.end()
}

// end closes the connection and waits for its server.
func (c *conn) end() {
	c.uplink.connClosed(c)
	c.link.stop()
	_ = c.server.Close() // the peer may have closed it already
	_ = c.carried.Close()
	<-c.served
}

// replica returns the hub's replica at the other end, or "" before it has sent its name.
func (c *conn) replica() string { return c.link.attached().GetReplica() }

func (c *conn) attrs() []any {
	return []any{slog.String("connection", c.id), slog.String("transport", string(c.carried.transport))}
}

// watched is a connection with a channel that is closed together with it.
type watched struct {
	net.Conn

	transport carrier.Transport
	once      sync.Once
	closed    chan struct{}
}

func newWatched(carried *carrier.Conn) *watched {
	return &watched{Conn: carried.Conn, transport: carried.Transport, closed: make(chan struct{})}
}

// NetConn returns the connection below for HTTP/2.
func (w *watched) NetConn() net.Conn { return w.Conn }

// Close implements net.Conn.
func (w *watched) Close() error {
	defer w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// label removes characters that the hub rejects in a header that it shows to people.
func label(version string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+", c)) {
			return c
		}
		return -1
	}, version)
}
