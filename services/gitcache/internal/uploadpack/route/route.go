// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package route connects to upstreams, directly or through a proxy.
//
// Its promises:
//
//   - The guard of the caller agrees before every connection and before every write. A replica that
//     was frozen past its lease therefore sends nothing when it wakes up.
//   - Addresses that no administrator wrote are checked before they are dialled. Committers choose
//     the URLs of submodules; operators of upstreams choose where they redirect to, and where their
//     LFS objects are. Such URLs must not lead to services that listen only on this machine or its
//     link. A URL that an administrator wrote may lead there.
//   - A client certificate is shown to the origin alone, and to no proxy.
//   - No error repeats the URL of a proxy, which may hold a password.
//
// A [Route] is immutable, has no lock and may be used concurrently. It opens connections, and keeps
// none: a [Transport] keeps idle ones until its caller closes them. The package adds no credential
// of a repository and knows nothing of Git.
package route

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/runtime/dialguard"
)

// Params bound where a route may lead.
type Params struct {
	// Guard agrees before any byte is sent. Its error is returned as it is.
	Guard func() error
	// Received is called with the number of bytes that arrived. Nil: they are not counted.
	Received func(bytes int)
	// Written are the URLs that an administrator wrote. Their hosts and ports are dialled whatever
	// address they have.
	Written []string
	// Untrusted checks the addresses of all other URLs.
	Untrusted dialguard.Guard
	// Proxy returns the proxy that leads to a URL; nil for none.
	Proxy func(*http.Request) (*url.URL, error)
	// ProxyUntrusted has Untrusted also check the addresses of proxies.
	ProxyUntrusted bool
	// Roots are trusted for upstreams and for proxies that are reached over TLS. Nil: the system's.
	Roots *x509.CertPool
}

// Route is the way to upstreams.
type Route struct {
	params  Params
	written map[string]bool // host:port, in lower case
	// dialer connects to addresses that an administrator wrote, and outside to all others. proxy is
	// one of the two, and connects to proxies.
	dialer, outside, proxy *dialer
}

// New returns a route.
func New(p Params) *Route {
	r := &Route{
		params: p, written: addresses(p.Written), dialer: newDialer(p.Guard, p.Received), outside: newDialer(p.Guard, p.Received),
	}
	r.outside.Control = p.Untrusted.Control
	if r.proxy = r.dialer; p.ProxyUntrusted {
		r.proxy = r.outside
	}
	return r
}

// Dial connects to host:port. The scheme of the protocol decides which proxy leads there. Errors
// are the guard's, dialguard's, and others, which match ErrProxy if the proxy is the cause.
func (r *Route) Dial(ctx context.Context, scheme, address string) (net.Conn, error) {
	via, err := r.proxyFor(&http.Request{URL: &url.URL{Scheme: scheme, Host: address}})
	switch {
	case err != nil:
		return nil, err
	case via != nil:
		if err := r.checkProxied(address); err != nil {
			return nil, err
		}
		return proxied{url: via, dialer: r.proxy, roots: r.params.Roots}.dial(ctx, address)
	case r.written[strings.ToLower(address)]:
		return r.dialer.DialContext(ctx, "tcp", address)
	}
	return r.outside.DialContext(ctx, "tcp", address)
}

// proxyFor returns the proxy for a request, or nil.
func (r *Route) proxyFor(req *http.Request) (*url.URL, error) {
	via, err := r.params.Proxy(req)
	if err != nil {
		return nil, ErrProxy // the cause may repeat the proxy's URL
	}
	return via, nil
}

// checkProxied returns an error if the proxy must not be asked for address. The proxy resolves
// names, so checkProxied rejects only literal addresses and names with a fixed meaning. The proxy's
// own rules decide about all others.
func (r *Route) checkProxied(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || r.written[strings.ToLower(address)] {
		return err
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		return r.params.Untrusted.Check(literal)
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	isLocal := name == "localhost" || strings.HasSuffix(name, ".localhost") || name == "metadata" || name == "metadata.google.internal"
	if isLocal && !r.params.Untrusted.AllowLocal {
		return fmt.Errorf("%w: %s", dialguard.ErrLocal, host)
	}
	return nil
}
