// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"cmp"
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// The limits of a connection. A stream may last for days, so there is no read and no write timeout;
// a peer that is gone is noticed by pings, one that does not read by the write timeout of its
// connection.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 5 * time.Minute
	maxHeaderBytes    = 64 << 10

	// defaultMaxStreams is how many streams one connection can begin at once, before anything can
	// bound it: about 16 KiB each. Proxies at the edge of networks commonly have 100.
	defaultMaxStreams = 100
	// defaultReceiveWindow bounds what a stalled upload holds in memory.
	defaultReceiveWindow = 512 << 10
	// connectionWindow bounds what all stalled uploads of one connection hold: past it they wait
	// for each other, and uploads of other connections do not wait.
	connectionWindow = 64 << 20
	defaultReadFrame = 64 << 10
	// headerTable is the size of HPACK's table for answers, the least that net/http takes: no answer has a field in it.
	// Times and lengths differ from answer to answer, so in time they would fill a table of 4 KiB, which takes 10 KiB,
	// for each connection of an agent. Without a table, an answer is about 50 bytes longer.
	headerTable = 1

	pingAfter        = 15 * time.Second
	pingTimeout      = 15 * time.Second
	writeByteTimeout = 30 * time.Second
)

func newServer(base context.Context, handler http.Handler, logger *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           Grown(handler),
		Protocols:         protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          defaultMaxStreams,
			MaxReceiveBufferPerStream:     defaultReceiveWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
			MaxReadFrameSize:              defaultReadFrame,
			MaxEncoderHeaderTableSize:     headerTable,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeByteTimeout,
		},
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog: log.New(errorLog(func(level slog.Level, message, detail string) {
			logger.LogAttrs(base, level, message, slog.String("detail", detail))
		}), "", 0),
	}
}

// errorLog receives net/http's messages. A panic in a handler is our defect; the rest is peers that
// misbehave.
type errorLog func(level slog.Level, message, detail string)

func (l errorLog) Write(line []byte) (int, error) {
	level, message := slog.LevelDebug, "connection failed"
	if bytes.Contains(line, []byte("panic serving")) {
		level, message = slog.LevelError, "handler panicked"
	}
	l(level, message, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// publicServer is the server of the public listener.
type publicServer struct {
	*http.Server

	strangers *anonymous
	detached  *detached
}

// Shutdown is http.Server's, for all connections.
func (s *publicServer) Shutdown(ctx context.Context) error {
	if err := s.Server.Shutdown(ctx); err != nil {
		return err
	}
	return s.detached.await(ctx)
}

// Close is http.Server's, for all connections.
func (s *publicServer) Close() error {
	defer s.detached.close()
	return s.Server.Close()
}

// newPublic returns the server of the public listener.
func (p *Params) newPublic(base context.Context) (*publicServer, error) {
	trusted, err := parseProxies(p.TrustedProxies)
	if err != nil {
		return nil, err
	}
	strangers, err := newAnonymous(p.Config, trusted, p.Logger, p.Meter)
	if err != nil {
		return nil, err
	}
	server := newServer(base, p.Public, p.Logger)
	server.HTTP2.SendPingTimeout = cmp.Or(p.PingAfter, pingAfter)
	server.HTTP2.MaxReceiveBufferPerStream = cmp.Or(p.ReceiveWindow, defaultReceiveWindow)
	server.HTTP2.MaxReadFrameSize = cmp.Or(p.ReadFrame, defaultReadFrame)
	server.HTTP2.MaxConcurrentStreams = cmp.Or(p.MaxStreams, defaultMaxStreams)
	strangers.install(server)
	server.Handler = trusted.wrap(server.Handler)
	return &publicServer{Server: server, strangers: strangers, detached: newDetached(strangers.contextOf, strangers.leave)}, nil
}

// serve blocks until the server is shut down, which is the error http.ErrServerClosed.
func (p *Params) serve(server *publicServer, listener net.Listener) error {
	if p.TLSCertFile != "" {
		listener = h2.CoalesceAll(listener) // for connections of agents, which internal/runtime/h2 takes over
	}
	if p.ProxyProtocol {
		trusted, err := parseProxies(p.TrustedProxies)
		if err != nil {
			return err
		}
		listener = trusted.listen(listener)
	}
	if p.TLSCertFile == "" {
		return server.Serve(server.detached.listen(listener, server.Server))
	}
	certificates, err := loadCertificates(p.TLSCertFile, p.TLSKeyFile)
	if err != nil {
		return err
	}
	if err := certificates.observe(p.Meter); err != nil {
		return err
	}
	server.TLSConfig = certificates.config()
	return server.ServeTLS(turnListener{listener}, "", "")
}
