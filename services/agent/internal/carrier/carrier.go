// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package carrier opens connections to the hub for the agent to serve on. What lies between the two decides what gets through: the
// Dialer tries an HTTP/1.1 Upgrade first, which costs nothing, then a WebSocket, then a stream of Connect messages in HTTP/2, and
// remembers for each address what worked. Who uses the connection does not see the difference. HTTP proxies of the environment are
// used. docs/protocol/tunnel.md describes the wire.
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
	"github.com/leatdev/leat/internal/h2"
	"github.com/leatdev/leat/internal/rpcerr"
)

// Transport names what carries a connection.
type Transport string

// The transports, in the order in which they are tried.
const (
	// Upgrade hands an HTTP/1.1 connection over.
	Upgrade Transport = "upgrade"
	// WebSocket sends the bytes in messages of a WebSocket, which nearly every ingress lets through.
	WebSocket Transport = "websocket"
	// Connect sends the bytes in messages of a bidirectional call, for ingresses that speak HTTP/2 alone.
	Connect Transport = "connect"
	// Dialled is no transport that a Dialer tries: the hub has opened the connection.
	Dialled Transport = "dialled"
)

// Transports are all transports, in the order in which they are tried.
func Transports() []Transport { return []Transport{Upgrade, WebSocket, Connect} }

const (
	// attemptTimeout bounds one transport's attempt.
	attemptTimeout = 15 * time.Second
	dialTimeout    = 10 * time.Second
	// rememberFor is how long a transport is tried first because it worked. After that the better ones get another chance: what went
	// wrong with them may have been a restart, and trying costs a request.
	rememberFor = 30 * time.Minute
)

// path is where the hub takes connections.
const path = "/tunnel/v1/connect"

// Params are what [New] needs.
type Params struct {
	// Roots are the certificates to trust for https. Nil means the system's.
	Roots *x509.CertPool
	// Transports are those to try, in order. Empty means all.
	Transports []Transport
	// Proxy chooses the proxy of a request. Nil means the one of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
	Proxy func(*http.Request) (*url.URL, error)
	// Dial opens what lies below all transports. Nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dialer opens connections. It is safe for concurrent use.
type Dialer struct {
	params Params

	mu     sync.Mutex
	worked map[string]memory // by base URL
}

// memory is what is known of an address.
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

// Conn is a connection to the hub, on which the hub will speak first.
type Conn struct {
	net.Conn

	// Transport is what carries it.
	Transport Transport
}

// Dial opens a connection to the tunnel at a base URL, http or https, with these headers. When the hub itself refuses, its error is
// returned and no other transport is tried; otherwise the error names what went wrong with each.
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

// Blame says that a connection was opened, but nothing got through: the other transports are tried first next time.
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

// Order is what would be tried at an address now, and in which order.
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

// final reports whether another transport would fail as well: because the hub itself has refused, or nothing answers at all.
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
		return nil, fmt.Errorf("no transport %q", transport)
	}
}

// client is an HTTP client for one connection, which speaks these protocols.
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

// dial opens what lies below TLS.
func (d *Dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.params.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return h2.Coalesce(conn), nil
}

// refusal is the hub's error in an answer that is not what was asked for, or what else stood in its place.
func refusal(res *http.Response) error {
	defer func() { _ = res.Body.Close() }()
	if err := rpcerr.FromHTTP(res); err != nil {
		return err
	}
	return fmt.Errorf("got status %d, want the connection to be handed over", res.StatusCode)
}
