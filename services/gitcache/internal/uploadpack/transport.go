// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// transports carry the requests of one session, to every kind of place that a redirect can lead to.
type transports struct {
	origin *url.URL
	route  *route
	// secure has the client certificate, and is for the origin alone. proxied hands requests to a
	// proxy that speaks HTTP.
	secure, elsewhere, plain, proxied *http.Transport
}

func newTransports(r *route, origin *url.URL, c mirror.Credential, roots *x509.CertPool) (*transports, error) {
	base := func() *http.Transport {
		return &http.Transport{
			ForceAttemptHTTP2:   true,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: 2 * time.Minute, IdleConnTimeout: time.Minute,
		}
	}
	t := &transports{origin: origin, route: r, secure: base(), elsewhere: base(), plain: base(), proxied: base()}
	// Proxies are dialled here rather than by net/http, which would show them the client
	// certificate too.
	tunnel := func(ctx context.Context, _, address string) (net.Conn, error) { return r.tunnel(ctx, "https", address) }
	t.secure.DialContext, t.elsewhere.DialContext = tunnel, tunnel
	t.plain.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return r.dialPlain(ctx, address) }
	t.proxied.DialContext, t.proxied.Proxy = r.dialer.DialContext, r.webProxy
	if c.ClientCertPEM != "" {
		certificate, err := tls.X509KeyPair([]byte(c.ClientCertPEM), []byte(c.ClientKeyPEM.Reveal()))
		if err != nil {
			return nil, errors.New("client certificate and key do not fit together")
		}
		t.secure.TLSClientConfig.Certificates = []tls.Certificate{certificate}
	}
	return t, nil
}

// webProxy leaves to net/http what it does best: handing whole requests to a proxy that speaks
// HTTP.
func (r *route) webProxy(req *http.Request) (*url.URL, error) {
	via, err := r.proxy(req)
	if err != nil {
		return nil, errProxy // the cause may repeat the proxy's URL
	}
	if via != nil && isSOCKS(via) {
		return nil, nil
	}
	return via, nil
}

// dialPlain connects to an upstream, directly or over SOCKS.
func (r *route) dialPlain(ctx context.Context, address string) (net.Conn, error) {
	via, err := r.proxy(&http.Request{URL: &url.URL{Scheme: "http", Host: address}})
	if err == nil && via != nil && isSOCKS(via) {
		return r.tunnel(ctx, "http", address)
	}
	return r.direct(ctx, address)
}

// RoundTrip implements http.RoundTripper.
func (t *transports) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.URL.Scheme != "https":
		return t.roundTripPlain(req)
	case sameOrigin(req.URL, t.origin):
		return t.secure.RoundTrip(req)
	default:
		return t.elsewhere.RoundTrip(req)
	}
}

func (t *transports) roundTripPlain(req *http.Request) (*http.Response, error) {
	via, err := t.route.webProxy(req)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return t.plain.RoundTrip(req)
	}
	if err := t.route.checkProxied(net.JoinHostPort(req.URL.Hostname(), port(req.URL))); err != nil {
		return nil, err
	}
	return t.proxied.RoundTrip(req)
}

func (t *transports) all() []*http.Transport {
	return []*http.Transport{t.secure, t.elsewhere, t.plain, t.proxied}
}

func (t *transports) CloseIdleConnections() {
	for _, transport := range t.all() {
		transport.CloseIdleConnections()
	}
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// hostName is what a host's limits go by: with its port, unless that is the usual one.
func hostName(scheme, host, port string) string {
	host = strings.ToLower(host)
	usual := map[string]string{"https": "443", "http": "80", "ssh": "22"}[scheme]
	if port == "" || port == usual {
		return host
	}
	return net.JoinHostPort(host, port)
}

func urlHost(u *url.URL) string { return hostName(u.Scheme, u.Hostname(), u.Port()) }

func certPool(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("no certificate found in the PEM text")
	}
	return pool, nil
}

// gated holds every request to what its host allows.
type gated struct {
	next  http.RoundTripper
	hosts hosts
}

// hosts is what this package needs of a [hostgate.Gate].
type hosts interface {
	Enter(ctx context.Context, host string) (leave func(), err error)
	Request(ctx context.Context, host string) error
	Report(host string, status int, retryAfter time.Duration)
}

// RoundTrip implements http.RoundTripper.
func (g gated) RoundTrip(req *http.Request) (*http.Response, error) {
	host := urlHost(req.URL)
	if err := g.hosts.Request(req.Context(), host); err != nil {
		return nil, err
	}
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	g.hosts.Report(host, resp.StatusCode, retryAfter(resp.Header.Get("Retry-After")))
	return resp, nil
}

// newRoute returns the route for a definition: through its own proxy, or through the environment's
// proxy for HTTP. Addresses in URLs other than written are checked before they are dialled.
func (c *Client) newRoute(def mirror.Definition, p mirror.FetchParams, written ...string) (*route, *x509.CertPool, error) {
	roots, err := certPool(def.CAPEM)
	if err != nil {
		return nil, nil, err
	}
	own, err := parseProxy(def.ProxyURL)
	if err != nil {
		return nil, nil, err
	}
	r := &route{
		dialer: &dialer{guard: p.Guard, received: p.Received}, outside: &dialer{guard: p.Guard, received: p.Received},
		judge: c.guard, written: addresses(written), proxy: c.environment, roots: roots,
	}
	r.outside.Control = c.guard.Control
	if own != nil {
		r.proxy = http.ProxyURL(own)
	}
	return r, roots, nil
}

// Enter implements [mirror.Upstream].
func (c *Client) Enter(ctx context.Context, def mirror.Definition) (leave func(), err error) {
	t, err := parseTarget(def)
	if err != nil {
		return func() {}, nil //nolint:nilerr // nothing will be sent; Fetch tells why
	}
	return c.hosts.Enter(ctx, t.host())
}

func (t target) host() string {
	port := ""
	if t.endpoint.Port > 0 {
		port = fmt.Sprint(t.endpoint.Port)
	}
	return hostName(t.endpoint.Protocol, t.endpoint.Host, port)
}
