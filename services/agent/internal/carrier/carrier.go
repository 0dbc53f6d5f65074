// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package carrier opens connections to the hub on which the agent serves requests. The way that
// works depends on the proxies and ingresses on the way. The Dialer tries an HTTP/1.1 Upgrade
// first, which costs nothing, then a WebSocket, then a stream of Connect messages in HTTP/2. It
// remembers for each address what worked. All three look the same to the user of a connection. The
// Dialer uses the HTTP proxies of the environment. docs/reference/protocol/tunnel.md describes the
// wire.
package carrier

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Transport names the way in which a connection is carried.
type Transport string

// The transports, in the order in which they are tried.
const (
	// Upgrade uses the HTTP/1.1 connection itself.
	Upgrade Transport = "upgrade"
	// WebSocket sends the bytes in WebSocket messages, which nearly every ingress forwards.
	WebSocket Transport = "websocket"
	// Connect sends the bytes in messages of a bidirectional call, for ingresses that support only
	// HTTP/2.
	Connect Transport = "connect"
	// Dialled marks a connection that the hub has opened. A Dialer does not try it.
	Dialled Transport = "dialled"
)

// Transports returns all transports, in the order in which they are tried.
func Transports() []Transport { return []Transport{Upgrade, WebSocket, Connect} }

const (
	// attemptTimeout bounds one transport's attempt.
	attemptTimeout = 15 * time.Second
	dialTimeout    = 10 * time.Second
	// rememberFor is how long the transport that worked last is tried first. After that the better
	// ones get another chance: a restart may have caused their failure, and an attempt costs one
	// request.
	rememberFor = 30 * time.Minute
)

// path is the hub's endpoint for connections.
const path = "/tunnel/v1/connect"

// Params are the settings of [New].
type Params struct {
	// Roots are the authorities to trust for https. Nil means the system's.
	Roots *x509.CertPool
	// Transports are the transports to try, in order. Empty means all.
	Transports []Transport
	// Proxy chooses the proxy of a request. Nil means the proxy of the environment (HTTPS_PROXY,
	// HTTP_PROXY, NO_PROXY).
	Proxy func(*http.Request) (*url.URL, error)
	// Dial opens the network connections below all transports. Nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dialer opens connections. It is safe for concurrent use.
type Dialer struct {
	params Params

	mu     sync.Mutex
	worked map[string]memory // by base URL
}

// memory records which transport worked for an address, and when.
type memory struct {
	transport Transport
	at        time.Time
}

// New returns a Dialer.
func New(p Params) *Dialer {
	if len(p.Transports) == 0 {
		p.Transports = Transports()
	}
	if p.Proxy == nil {
		p.Proxy = http.ProxyFromEnvironment
	}
	if p.Dial == nil {
		p.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return &Dialer{params: p, worked: map[string]memory{}}
}

// Conn is a connection to the hub, on which the hub sends first.
type Conn struct {
	net.Conn

	// Transport is the transport of the connection.
	Transport Transport
}

// Dial opens a connection to the tunnel at a base URL, http or https, with these headers. If the
// hub itself refuses, Dial returns its error and tries no other transport. Otherwise the error
// describes the failure of each transport.
func (d *Dialer) Dial(ctx context.Context, base string, header http.Header) (*Conn, error) {
	target, err := url.Parse(base)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, fmt.Errorf("tunnel URL %q: want http or https", base)
	}
	target.Path = strings.TrimRight(target.Path, "/")
	var errs []error
	for _, transport := range d.Order(base) {
		conn, err := d.attempt(ctx, transport, target, header)
		if err == nil {
			d.remember(base, transport)
			return &Conn{Conn: conn, Transport: transport}, nil
		}
		err = fmt.Errorf("%s: %w", transport, err)
		if final(err) || ctx.Err() != nil {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Blame reports that a connection was opened and nothing got through. The next Dial tries the other
// transports first.
func (d *Dialer) Blame(base string, transport Transport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, other := range d.params.Transports {
		if other == transport {
			d.worked[base] = memory{transport: d.params.Transports[(i+1)%len(d.params.Transports)], at: time.Now()}
		}
	}
}

func (d *Dialer) remember(base string, transport Transport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.worked[base].transport != transport {
		d.worked[base] = memory{transport: transport, at: time.Now()}
	}
}

// Order returns the transports that Dial would try now at an address, in order.
func (d *Dialer) Order(base string) []Transport {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.worked[base]
	if !ok || time.Since(known.at) >= rememberFor {
		delete(d.worked, base)
		return d.params.Transports
	}
	order := []Transport{known.transport}
	for _, transport := range d.params.Transports {
		if !slices.Contains(order, transport) {
			order = append(order, transport)
		}
	}
	return order
}

// final reports whether every other transport would fail, too: the hub itself has refused, or
// nothing answers at all.
func final(err error) bool {
	if operation, ok := errors.AsType[*net.OpError](err); ok && operation.Op == "dial" {
		return true
	}
	switch rpcerr.ReasonOf(err) {
	case errorsv1.Reason_REASON_TOKEN_INVALID, errorsv1.Reason_REASON_ACCESS_DENIED, errorsv1.Reason_REASON_ALREADY_EXISTS,
		errorsv1.Reason_REASON_SHUTTING_DOWN, errorsv1.Reason_REASON_RATE_LIMITED, errorsv1.Reason_REASON_FIELD_INVALID:
		return true
	default:
		return false
	}
}

func (d *Dialer) attempt(ctx context.Context, transport Transport, target *url.URL, header http.Header) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	switch transport {
	case Upgrade:
		return d.upgrade(ctx, target, header)
	case WebSocket:
		return d.webSocket(ctx, target, header)
	case Connect:
		return d.stream(ctx, target, header)
	default:
		return nil, fmt.Errorf("unknown transport %q", transport)
	}
}

// client returns an HTTP client for one connection, with the configured protocols.
func (d *Dialer) client(configure func(*http.Protocols)) *http.Transport {
	protocols := new(http.Protocols)
	configure(protocols)
	return &http.Transport{
		Protocols: protocols, Proxy: d.params.Proxy, DisableCompression: true,
		DialContext:         d.dial,
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     &tls.Config{RootCAs: d.params.Roots, MinVersion: tls.VersionTLS12},
	}
}

// dial opens the connection below TLS.
func (d *Dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.params.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return h2.Coalesce(conn), nil
}

// refusal returns the hub's error in an unexpected answer, or an error about its status.
func refusal(res *http.Response) error {
	defer func() { _ = res.Body.Close() }()
	if err := rpcerr.FromHTTP(res); err != nil {
		return err
	}
	return fmt.Errorf("got status %d, want the connection to be handed over", res.StatusCode)
}
