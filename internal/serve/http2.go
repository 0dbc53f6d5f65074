// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/h2"
)

// http2Server serves the connections of an http.Server on which HTTP/2 is spoken. That one has the listener, TLS and HTTP/1.1.
type http2Server struct {
	settings h2.Settings
	budget   *h2.Budget
	logger   *slog.Logger

	mu      sync.Mutex
	conns   map[*h2.Server]struct{}
	leaving bool
}

// http2Settings are as strict as what newServer asks of net/http.
func http2Settings(pingAfter time.Duration) h2.Settings {
	return h2.Settings{
		Windows:        h2.DefaultWindows(),
		FrameSize:      streamWindow, // whoever uploads fills it at once
		MaxHeaderBytes: maxHeaderBytes,
		MaxStreams:     maxConcurrentStreams,
		PingAfter:      pingAfter,
		PingTimeout:    pingTimeout,
		WriteTimeout:   writeByteTimeout,
		Greeting:       readHeaderTimeout,
		IdleTimeout:    idleTimeout,
	}
}

// The protocols that net/http asks for. Without TLS it has read the client's preface, and hides the connection in one of TLS: so
// golang.org/x/net/http2 gets it, too.
const (
	overTLS    = "h2"
	withoutTLS = "unencrypted_http2"
)

// install has the server leave HTTP/2 to s. Whoever stops the server stops s.
func (s *http2Server) install(server *http.Server) {
	s.conns = map[*h2.Server]struct{}{}
	server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		overTLS: func(_ *http.Server, conn *tls.Conn, handler http.Handler) { s.serve(conn, handler, false) },
		withoutTLS: func(_ *http.Server, hidden *tls.Conn, handler http.Handler) {
			if conn, ok := hidden.NetConn().(interface{ UnencryptedNetConn() net.Conn }); ok {
				s.serve(conn.UnencryptedNetConn(), handler, true)
			}
		},
	}
	server.RegisterOnShutdown(s.leave)
}

// serve serves one connection until it ends. The http.Server's Shutdown waits for it, and its Close closes the connection.
func (s *http2Server) serve(conn net.Conn, handler http.Handler, begun bool) {
	ctx := context.Background()
	if of, ok := handler.(interface{ BaseContext() context.Context }); ok { // what net/http knows of the connection
		ctx = of.BaseContext()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	each := h2.NewServer(ctx, conn, h2.ServerParams{Settings: s.settings, Budget: s.budget, Handler: handler, Logger: s.logger, Begun: begun})
	s.add(each)
	defer s.remove(each)
	err := each.Serve()
	s.logger.DebugContext(ctx, "connection ended", slog.Any("error", err))
}

func (s *http2Server) add(each *h2.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[each] = struct{}{}
	if s.leaving {
		each.Leave()
	}
}

func (s *http2Server) remove(each *h2.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, each)
}

// leave has all connections end with the requests that are under way.
func (s *http2Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	for each := range s.conns {
		each.Leave()
	}
}
