// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve runs the HTTP server of a service: HTTP/1.1 and HTTP/2 on one port, with or without
// TLS; health and metrics on a second, internal port; bounds for unauthenticated callers; and a
// drain at the end that lets callers finish.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/config"
)

// DefaultInternalListenAddr is the default address on which services answer probes and scrapes.
const DefaultInternalListenAddr = ":8790"

// defaultDrainTimeout fits into the 30 s that Kubernetes gives a pod to end.
const defaultDrainTimeout = 25 * time.Second

// goAwayInterval is how long a connection may wait for its GOAWAY that became one of HTTP/2 after
// the drain had begun.
const goAwayInterval = time.Second

// Config sets where to listen and how to end.
type Config struct {
	// ListenAddr is host:port. A value that is set before Bind is the flag's default; otherwise
	// that is :8080.
	ListenAddr string
	// TLSCertFile and TLSKeyFile hold a certificate chain and its key in PEM. Empty means no TLS:
	// plain HTTP/1.1 and HTTP/2 with prior knowledge. The files are read again when they change.
	TLSCertFile string
	TLSKeyFile  string
	// DrainTimeout is how long running calls may continue after the stop signal. Zero means 25 s.
	DrainTimeout time.Duration
	// PingAfter is the silence after which a peer over HTTP/2 is asked whether it lives. Zero means
	// 15 s. Not a flag: where peers send something of their own at intervals, it is longer than those,
	// because a PING may be lost to a proxy in between, and a peer that does not answer one is taken
	// for gone.
	PingAfter time.Duration
	// ReceiveWindow is how many bytes of one HTTP/2 body are accepted before the handler reads
	// them. Zero means 512 KiB. Not a flag.
	ReceiveWindow int
	// ReadFrame is how many bytes a frame of HTTP/2 may have that a peer sends, from 16 KiB. A connection holds
	// that many as long as it lives, once it has received as many. Zero means 64 KiB. Not a flag.
	ReadFrame int
	// MaxStreams is how many requests one connection over HTTP/2 may have under way. Zero means
	// 100. Not a flag.
	MaxStreams int
	// Listener is used instead of ListenAddr when it is set; tests and "leat up" pass one with a
	// port of the kernel's choice. [Run] closes it. Not a flag.
	Listener net.Listener

	// InternalListenAddr is host:port of the listener for health, metrics and reflection. It speaks
	// plain HTTP and must not be reachable from outside. Empty: no such listener.
	InternalListenAddr string
	// InternalListener is used instead of InternalListenAddr when it is set. [Run] closes it. Not a
	// flag.
	InternalListener net.Listener

	// AnonymousConnections and AnonymousRequests bound what unauthenticated callers hold together.
	// Zero means 2,000 and 1,000. One address may use a quarter of each.
	AnonymousConnections int
	AnonymousRequests    int
	// TrustedProxies are the addresses and networks of load balancers that may name the caller in
	// X-Forwarded-For.
	TrustedProxies []string
	// ProxyProtocol requires that trusted proxies begin each connection with a PROXY header.
	ProxyProtocol bool
}

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	c.BindListener(s)
	bindInternalAddr(s, &c.InternalListenAddr)
	s.Int(&c.AnonymousConnections, "max-anonymous-connections", defaultAnonymousConnections,
		"connections of unauthenticated callers; past it the oldest is closed; one address may have a quarter")
	s.Int(&c.AnonymousRequests, "max-anonymous-requests", defaultAnonymousRequests,
		"requests under way of unauthenticated callers; past it the oldest is reset; one address may have a quarter")
	s.Strings(&c.TrustedProxies, "trusted-proxies", nil,
		"addresses or networks of load balancers, separated by commas, whose X-Forwarded-For names the caller")
	s.Bool(&c.ProxyProtocol, "proxy-protocol", false,
		"trusted proxies begin each connection with a PROXY header (version 1 or 2)")
}

// bindInternalAddr binds the address of the internal listener, which the service and its health check
// read.
func bindInternalAddr(s *config.Set, addr *string) {
	s.String(addr, "internal-listen-addr", DefaultInternalListenAddr,
		"address for health, readiness, metrics and reflection, host:port; plain HTTP, not for the outside; empty: not served")
}

// BindListener binds the fields of a server with one listener and without unauthenticated callers.
func (c *Config) BindListener(s *config.Set) {
	s.Group("Serving")
	s.String(&c.ListenAddr, "listen-addr", cmp.Or(c.ListenAddr, ":8080"), "address to listen on, host:port")
	s.String(&c.TLSCertFile, "tls-cert-file", "", "certificate chain in PEM; without it there is no TLS")
	s.String(&c.TLSKeyFile, "tls-key-file", "", "key of the certificate in PEM")
	s.Duration(&c.DrainTimeout, "drain-timeout", defaultDrainTimeout, "how long running calls may go on after the stop signal")
	s.Check(c.check)
}

func (c *Config) check() error {
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		return errors.New("--tls-cert-file and --tls-key-file go together: give both or none")
	}
	if c.AnonymousConnections < 0 || c.AnonymousRequests < 0 {
		return errors.New("--max-anonymous-connections and --max-anonymous-requests must not be negative")
	}
	if c.ProxyProtocol && len(c.TrustedProxies) == 0 {
		return errors.New("--proxy-protocol needs --trusted-proxies: the load balancers that send PROXY headers")
	}
	_, err := parseProxies(c.TrustedProxies)
	return err
}

// Listen returns the listener: the given one, or a new one on ListenAddr. The caller closes it, or
// passes it on to [Run] in Config.Listener.
func (c *Config) Listen() (net.Listener, error) {
	if c.Listener != nil {
		return c.Listener, nil
	}
	return listen(c.ListenAddr)
}

// listenInternal is [Config.Listen] for the internal listener. It returns nil if the settings name
// no internal listener.
func (c *Config) listenInternal() (net.Listener, error) {
	if c.InternalListener != nil || c.InternalListenAddr == "" {
		return c.InternalListener, nil
	}
	return listen(c.InternalListenAddr)
}

func listen(addr string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	return listener, nil
}

// Params are the parts that [Run] serves.
type Params struct {
	Config

	// Public answers on the listener. Required.
	Public http.Handler
	// Internal answers on the internal listener, as [NewInternal] does. Nil: there is no such
	// listener.
	Internal http.Handler
	// Started is the internal listener if it answers already. Run closes it. Nil: Run starts it.
	Started *Internal
	// Logger receives the server's state changes, and reports of peers that misbehave. Required.
	Logger *slog.Logger
	// Meter counts what unauthenticated callers were refused. Nil: nothing is counted.
	Meter metric.Meter
}

// Run serves until ctx ends, then drains and returns nil. When the drain begins, readiness fails,
// [Draining] closes, and HTTP/2 connections get a GOAWAY. Running calls may finish within the drain
// timeout; the rest is cut off. The internal listener ends last. An error means that the server
// could not start, or stopped on its own. The context of every request descends from ctx. It is
// canceled when its connection is cut, not when the drain begins.
//
// Run does not wait for hijacked connections: a handler that hijacks one watches [Draining] and
// waits on its own.
func Run(ctx context.Context, p Params) error {
	listener, err := p.Listen()
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server closes it too, except when it could not start
	if err := p.check(); err != nil {
		return err
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	internal := p.Started
	if internal == nil {
		if internal, err = StartInternal(ctx, p); err != nil {
			return err
		}
	}
	defer internal.Close()
	base = context.WithValue(base, drainKey{}, (<-chan struct{})(internal.drain))
	server, err := p.newPublic(base)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- p.serve(server, listener) }()
	p.Logger.InfoContext(ctx, "serving",
		slog.String("address", listener.Addr().String()), slog.Bool("tls", p.TLSCertFile != ""))
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	close(internal.drain)
	stop(ctx, server, cmp.Or(p.DrainTimeout, defaultDrainTimeout), cut, p.Logger)
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// stop lets running calls finish, and cuts off the rest.
func stop(ctx context.Context, server *publicServer, timeout time.Duration, cut func(), logger *slog.Logger) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := shutdown(ctx, server); err == nil {
		logger.InfoContext(ctx, "drained", slog.Duration("duration", time.Since(began)))
		return
	}
	logger.WarnContext(ctx, "drain timed out, connections are cut", slog.Duration("timeout", timeout))
	// The connections end first: a handler that hears of the end and returns would otherwise make half
	// an answer look whole.
	_ = server.Close() // its error is the listener's, which is closed already
	cut()
}

// shutdown blocks until the server has no connection, or until ctx ends. net/http sends a GOAWAY to
// the HTTP/2 connections that it knows of when Shutdown begins. A connection whose handshake ends
// after that gets none, and would last as long as its client likes. Therefore shutdown begins
// again at intervals; a connection gets one GOAWAY.
func shutdown(ctx context.Context, server *publicServer) error {
	for {
		round, cancel := context.WithTimeout(ctx, goAwayInterval)
		err := server.Shutdown(round)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

type drainKey struct{}

// Draining returns a channel that closes when the server begins to stop. A handler that streams
// without an end watches it, sends a goodbye and returns; one that does not holds the drain up
// until it times out. Outside of [Run] the channel is nil and never closes.
func Draining(ctx context.Context) <-chan struct{} {
	drain, _ := ctx.Value(drainKey{}).(<-chan struct{})
	return drain
}

// isDraining reports whether the server that ctx belongs to has begun to stop.
func isDraining(ctx context.Context) bool { return wake.IsClosed(Draining(ctx)) }
