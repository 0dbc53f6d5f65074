// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// errProxy marks a proxy that does not let us through.
var errProxy = errors.New("proxy refused")

// proxyPort returns the usual port of a kind of proxy; empty: there is no such kind.
func proxyPort(scheme string) string {
	return map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[scheme]
}

// parseProxy reads the proxy of a definition; nil where it has none. The error is a
// *mirror.FieldError without the URL.
func parseProxy(secret mirror.Secret) (*url.URL, error) {
	if secret == "" {
		return nil, nil
	}
	refuse := func(message string) (*url.URL, error) {
		return nil, &mirror.FieldError{Field: "proxy_url", Message: message}
	}
	u, err := url.Parse(secret.Reveal())
	if err != nil || u.Hostname() == "" {
		return refuse("It is not a URL with a host.")
	}
	if proxyPort(u.Scheme) == "" {
		return refuse("Its scheme is not one of http, https, socks5 and socks5h.")
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return refuse("It has a path, a query or a fragment.")
	}
	return u, nil
}

// route is the way to upstreams: directly, or through a proxy.
type route struct {
	// dialer connects to proxies and to addresses that an administrator wrote. outside connects to
	// all others.
	dialer, outside *dialer
	judge           dialguard.Guard
	written         map[string]bool // host:port
	// proxy returns the proxy that leads to a URL; nil for none.
	proxy func(*http.Request) (*url.URL, error)
	// roots are trusted for a proxy that is reached over TLS. Nil: the system's.
	roots *x509.CertPool
}

// tunnel connects to an address for a protocol that encrypts by itself, as the scheme tells.
func (r *route) tunnel(ctx context.Context, scheme, address string) (net.Conn, error) {
	via, err := r.proxy(&http.Request{URL: &url.URL{Scheme: scheme, Host: address}})
	if err != nil {
		return nil, errProxy // the cause may repeat the proxy's URL
	}
	if via == nil {
		return r.direct(ctx, address)
	}
	if err := r.checkProxied(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if isSOCKS(via) {
		return r.socks(ctx, via, address)
	}
	return r.connect(ctx, via, address)
}

func isSOCKS(via *url.URL) bool { return strings.HasPrefix(via.Scheme, "socks5") }

func proxyAddress(via *url.URL) string {
	port := via.Port()
	if port == "" {
		port = proxyPort(via.Scheme)
	}
	return net.JoinHostPort(via.Hostname(), port)
}

// socks lets the proxy resolve names, as net/http does, for socks5 too.
func (r *route) socks(ctx context.Context, via *url.URL, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if via.User != nil {
		password, _ := via.User.Password()
		auth = &proxy.Auth{User: via.User.Username(), Password: password}
	}
	through, err := proxy.SOCKS5("tcp", proxyAddress(via), auth, r.dialer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProxy, err)
	}
	dialer, ok := through.(proxy.ContextDialer)
	if !ok {
		return nil, fmt.Errorf("%w: no dialer with a context", errProxy)
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProxy, err)
	}
	return conn, nil
}

// connect asks an HTTP proxy for a tunnel.
func (r *route) connect(ctx context.Context, via *url.URL, address string) (net.Conn, error) {
	conn, err := r.dialer.DialContext(ctx, "tcp", proxyAddress(via))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProxy, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	tunnel, err := r.handshake(ctx, conn, via, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errProxy, err), conn.Close())
	}
	return tunnel, nil
}

func (r *route) handshake(ctx context.Context, conn net.Conn, via *url.URL, address string) (net.Conn, error) {
	if via.Scheme == "https" {
		secured := tls.Client(conn, &tls.Config{ServerName: via.Hostname(), RootCAs: r.roots, MinVersion: tls.VersionTLS12})
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secured
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		pair := base64.StdEncoding.EncodeToString([]byte(via.User.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+pair)
	}
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("ask for a tunnel: %w", err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, req) //nolint:bodyclose // the tunnel is its body
	if err != nil {
		return nil, fmt.Errorf("ask for a tunnel: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for a tunnel: HTTP status %d", resp.StatusCode)
	}
	return readConn{Conn: conn, reader: reader}, nil
}

// readConn is a connection of which some bytes have been read ahead: SSH servers speak first.
type readConn struct {
	net.Conn
	reader io.Reader
}

// Read implements net.Conn.
func (c readConn) Read(p []byte) (int, error) { return c.reader.Read(p) }
