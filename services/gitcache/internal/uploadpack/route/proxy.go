// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package route

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
)

// ErrProxy marks a proxy that refuses the connection or cannot be reached.
var ErrProxy = errors.New("proxy refused")

// proxyPort has the usual port of each kind of proxy.
var proxyPort = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// IsProxyScheme reports whether a proxy's URL may have this scheme.
func IsProxyScheme(scheme string) bool { return proxyPort[scheme] != "" }

func isSOCKS(via *url.URL) bool { return strings.HasPrefix(via.Scheme, "socks5") }

// proxied makes connections through a proxy.
type proxied struct {
	url    *url.URL
	dialer *dialer
	roots  *x509.CertPool // trusted for a proxy that is reached over TLS
}

// dial connects to address. Its errors match ErrProxy.
func (p proxied) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	port := p.url.Port()
	if port == "" {
		port = proxyPort[p.url.Scheme]
	}
	dial := p.tunnel
	if isSOCKS(p.url) {
		dial = p.dialSOCKS
	}
	conn, err := dial(ctx, net.JoinHostPort(p.url.Hostname(), port), address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	return conn, nil
}

// dialSOCKS leaves the resolving of names to the proxy, as net/http does, for socks5 too.
func (p proxied) dialSOCKS(ctx context.Context, at, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.url.User != nil {
		password, _ := p.url.User.Password()
		auth = &proxy.Auth{User: p.url.User.Username(), Password: password}
	}
	through, err := proxy.SOCKS5("tcp", at, auth, p.dialer)
	if err != nil {
		return nil, err
	}
	dialer, ok := through.(proxy.ContextDialer)
	if !ok {
		return nil, errors.New("no dialer with a context")
	}
	return dialer.DialContext(ctx, "tcp", address)
}

// tunnel asks an HTTP proxy for a tunnel with CONNECT. It does not show it a client certificate.
func (p proxied) tunnel(ctx context.Context, at, address string) (net.Conn, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	secured := conn
	if p.url.Scheme == "https" {
		secured = tls.Client(conn, &tls.Config{ServerName: p.url.Hostname(), RootCAs: p.roots, MinVersion: tls.VersionTLS12})
	}
	tunnel, err := connect(secured, p.url, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask for a tunnel: %w", err), conn.Close())
	}
	return tunnel, nil
}

// connect sends CONNECT and reads the answer.
func connect(conn net.Conn, via *url.URL, address string) (net.Conn, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		pair := base64.StdEncoding.EncodeToString([]byte(via.User.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+pair)
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, req) //nolint:bodyclose // the tunnel is its body
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
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
