// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/h2"
)

// The limits of a connection. A stream may last for days, so there is no read and no write timeout; a peer that is gone
// is noticed by pings, one that does not read by the write timeout of its connection.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 5 * time.Minute
	maxHeaderBytes    = 64 << 10

	maxConcurrentStreams = 1000
	// streamWindow bounds what a stalled upload holds in memory.
	streamWindow = 512 << 10
	// connectionWindow lets every stream fill its window, so that stalled ones do not stop the rest.
	connectionWindow = maxConcurrentStreams * streamWindow
	readFrameSize    = 64 << 10

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
			MaxConcurrentStreams:          maxConcurrentStreams,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
			MaxReadFrameSize:              readFrameSize,
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

// errorLog takes what net/http has to say. A panic in a handler is our defect; the rest is peers that misbehave.
type errorLog func(level slog.Level, message, detail string)

func (l errorLog) Write(line []byte) (int, error) {
	level, message := slog.LevelDebug, "connection failed"
	if bytes.Contains(line, []byte("panic serving")) {
		level, message = slog.LevelError, "handler panicked"
	}
	l(level, message, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// serve blocks until the server is shut down, which is the error http.ErrServerClosed.
func (c *Config) serve(server *http.Server, listener net.Listener, logger *slog.Logger) error {
	if c.HTTP2 != nil {
		own := &http2Server{settings: http2Settings(server.HTTP2.SendPingTimeout), budget: c.HTTP2, logger: logger}
		own.install(server)
	}
	if c.TLSCertFile == "" {
		return server.Serve(listener)
	}
	certificates, err := loadCertificates(c.TLSCertFile, c.TLSKeyFile)
	if err != nil {
		return err
	}
	server.TLSConfig = certificates.config()
	return server.ServeTLS(h2.CoalesceAll(listener), "", "")
}
