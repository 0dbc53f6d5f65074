// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Transport carries HTTP requests over a [Route]. It is an http.RoundTripper.
//
// It has one http.Transport for each kind of place that a redirect can lead to. Proxies for TLS are
// dialled by the route rather than by net/http, which would show them the client certificate too.
type Transport struct {
	route  *Route
	origin *url.URL
	// secure has the client certificate, and is for the origin alone. proxied hands requests to a
	// proxy that speaks HTTP.
	secure, elsewhere, plain, proxied *http.Transport
}

// NewTransport returns a transport of the route. It shows the certificates to the origin alone.
func (r *Route) NewTransport(origin *url.URL, certificates ...tls.Certificate) *Transport {
	base := func(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
		return &http.Transport{
			DialContext: dial, ForceAttemptHTTP2: true,
			TLSClientConfig:     &tls.Config{RootCAs: r.params.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: DialTimeout, ResponseHeaderTimeout: 2 * time.Minute, IdleConnTimeout: time.Minute,
		}
	}
	dial := func(scheme string) func(ctx context.Context, network, address string) (net.Conn, error) {
		return func(ctx context.Context, _, address string) (net.Conn, error) { return r.Dial(ctx, scheme, address) }
	}
	t := &Transport{
		route: r, origin: origin,
		secure: base(dial("https")), elsewhere: base(dial("https")), plain: base(dial("http")), proxied: base(r.proxy.DialContext),
	}
	t.secure.TLSClientConfig.Certificates = certificates
	t.proxied.Proxy = r.httpProxy
	return t
}

// httpProxy returns the proxy that takes whole requests, if there is one. net/http hands them over
// by itself. SOCKS proxies take connections only, as [Route.Dial] makes them.
func (r *Route) httpProxy(req *http.Request) (*url.URL, error) {
	via, err := r.proxyFor(req)
	if err != nil || via == nil || isSOCKS(via) {
		return nil, err
	}
	return via, nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.URL.Scheme != "https":
		return t.roundTripPlain(req)
	case SameOrigin(req.URL, t.origin):
		return t.secure.RoundTrip(req)
	default:
		return t.elsewhere.RoundTrip(req)
	}
}

func (t *Transport) roundTripPlain(req *http.Request) (*http.Response, error) {
	via, err := t.route.httpProxy(req)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return t.plain.RoundTrip(req)
	}
	if err := t.route.checkProxied(net.JoinHostPort(req.URL.Hostname(), portOf(req.URL))); err != nil {
		return nil, err
	}
	return t.proxied.RoundTrip(req)
}

// CloseIdleConnections closes the connections that carry no request now.
func (t *Transport) CloseIdleConnections() {
	for _, transport := range t.all() {
		transport.CloseIdleConnections()
	}
}

// DisableKeepAlives makes every request use a connection of its own. It is called before the first
// request.
func (t *Transport) DisableKeepAlives() {
	for _, transport := range t.all() {
		transport.DisableKeepAlives = true
	}
}

func (t *Transport) all() []*http.Transport {
	return []*http.Transport{t.secure, t.elsewhere, t.plain, t.proxied}
}
