// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve runs the HTTP server of a service: HTTP/1.1 and HTTP/2 on one port, with or without TLS, with health
// and metrics beside the service's own handlers, and a drain at the end that lets callers finish.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/h2"
)

// defaultDrainTimeout fits into the 30 s that Kubernetes gives a pod to end.
const defaultDrainTimeout = 25 * time.Second

// Config says where to listen and how to end.
type Config struct {
	// ListenAddr is host:port. A value that is set before Bind is the flag's default; otherwise that is :8080.
	ListenAddr string
	// TLSCertFile and TLSKeyFile hold a certificate chain and its key in PEM. Empty means no TLS: plain HTTP/1.1 and
	// HTTP/2 with prior knowledge. The files are read again when they change.
	TLSCertFile string
	TLSKeyFile  string
	// DrainTimeout is how long running calls may go on after the stop signal. Zero means 25 s.
	DrainTimeout time.Duration
	// PingAfter is the silence after which a peer over HTTP/2 is asked whether it lives. Zero means 15 s. Not a flag: where peers
	// send something of their own at intervals, it is longer than those, because a PING may be lost to what stands in between,
	// and what does not answer one is taken for gone.
	PingAfter time.Duration
	// HTTP2 has internal/h2 serve HTTP/2, and is what all connections may hold that nobody has read. Nil means that net/http does. Not a
	// flag: it is for services that pass everything on, for which HTTP/2 itself is most of the work.
	HTTP2 *h2.Budget
	// Listener is used instead of ListenAddr when it is set; tests and "leat up" pass one with a port of the kernel's
	// choice. [Run] closes it. Not a flag.
	Listener net.Listener
}

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	addr := c.ListenAddr
	if addr == "" {
		addr = ":8080"
	}
	s.Group("Serving")
	s.String(&c.ListenAddr, "listen-addr", addr, "address to listen on, host:port")
	s.String(&c.TLSCertFile, "tls-cert-file", "", "certificate chain in PEM; without it there is no TLS")
	s.String(&c.TLSKeyFile, "tls-key-file", "", "key of the certificate in PEM")
	s.Duration(&c.DrainTimeout, "drain-timeout", defaultDrainTimeout, "how long running calls may go on after the stop signal")
	s.Check(c.check)
}

func (c *Config) check() error {
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		return errors.New("--tls-cert-file and --tls-key-file go together: give both or none")
	}
	return nil
}

// Listen returns the listener: the given one, or a new one on ListenAddr. The caller closes it, or passes it on to
// [Run] in Config.Listener.
func (c *Config) Listen() (net.Listener, error) {
	if c.Listener != nil {
		return c.Listener, nil
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", c.ListenAddr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", c.ListenAddr, err)
	}
	return listener, nil
}

// Run serves handler until ctx ends, then drains and returns nil: readiness fails and [Draining] closes at once, HTTP/2
// connections are told to go away, running calls may finish within the drain timeout, and what is left is cut off. An
// error means that the server could not start or stopped by itself. The context of every request descends from ctx and
// is canceled when its connection is cut, not when the drain begins.
//
// Hijacked connections are not waited for: who hijacks one watches [Draining] and waits on its own.
func Run(ctx context.Context, cfg Config, handler http.Handler, logger *slog.Logger) error {
	listener, err := cfg.Listen()
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server closes it too, except when it could not start
	if err := cfg.check(); err != nil {
		return err
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	drain := make(chan struct{})
	server := newServer(context.WithValue(base, drainKey{}, (<-chan struct{})(drain)), handler, logger)
	if cfg.PingAfter > 0 {
		server.HTTP2.SendPingTimeout = cfg.PingAfter
	}
	served := make(chan error, 1)
	go func() { served <- cfg.serve(server, listener, logger) }()
	logger.InfoContext(ctx, "serving",
		slog.String("address", listener.Addr().String()), slog.Bool("tls", cfg.TLSCertFile != ""))
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	close(drain)
	stop(ctx, server, cfg.drainTimeout(), cut, logger)
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func (c *Config) drainTimeout() time.Duration {
	if c.DrainTimeout == 0 {
		return defaultDrainTimeout
	}
	return c.DrainTimeout
}

// stop lets running calls finish, and cuts off those that do not.
func stop(ctx context.Context, server *http.Server, timeout time.Duration, cut func(), logger *slog.Logger) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := server.Shutdown(ctx); err == nil {
		logger.InfoContext(ctx, "drained", slog.Duration("duration", time.Since(began)))
		return
	}
	logger.WarnContext(ctx, "drain timed out, connections are cut", slog.Duration("timeout", timeout))
	cut()
	_ = server.Close() // closes what Shutdown left; its error is that of the listener, which is closed already
}

type drainKey struct{}

// Draining returns a channel that closes when the server begins to stop. A handler that streams without an end watches
// it, says goodbye and returns; one that does not holds the drain up until it times out. Outside of [Run] the channel is
// nil and never closes.
func Draining(ctx context.Context) <-chan struct{} {
	drain, _ := ctx.Value(drainKey{}).(<-chan struct{})
	return drain
}

// isDraining reports whether the server that ctx belongs to has begun to stop.
func isDraining(ctx context.Context) bool {
	select {
	case <-Draining(ctx):
		return true
	default:
		return false
	}
}
