// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/rpcerr"
)

const (
	connectPath = "/tunnel/v1/connect"
	protocol    = "leat-tunnel/1"
)

// dial opens a connection and turns it round. The error is the hub's when it refused.
func (u *Uplink) dial(ctx context.Context, base, id string) (*turnedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	token, err := u.params.Tokens.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("get access token: %w", err)
	}
	request, err := u.request(ctx, base, token, id)
	if err != nil {
		return nil, err
	}
	conn, err := u.connect(ctx, request.URL)
	if err != nil {
		return nil, fmt.Errorf("connect to tunnel: %w", err)
	}
	turned, err := upgrade(ctx, conn, request)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return turned, nil
}

func (u *Uplink) request(ctx context.Context, base, token, id string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+connectPath, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Leat-Agent-Version", label(u.params.Version))
	request.Header.Set("Leat-Connection-Id", id)
	return request, nil
}

// label keeps what the hub accepts in a header that it shows to people.
func label(version string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+", c)) {
			return c
		}
		return -1
	}, version)
}

func (u *Uplink) connect(ctx context.Context, target *url.URL) (net.Conn, error) {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	address := net.JoinHostPort(target.Hostname(), port)
	switch target.Scheme {
	case "http":
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	case "https":
		return (&tls.Dialer{Config: u.tlsConfig(target.Hostname())}).DialContext(ctx, "tcp", address)
	default:
		return nil, fmt.Errorf("URL %q: want http or https", target.Redacted())
	}
}

// upgrade sends the request and reads the answer, within the time that ctx has.
func upgrade(ctx context.Context, conn net.Conn, request *http.Request) (*turnedConn, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	// The deadline covers time; this covers a stop.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer response.Body.Close()
		if err := rpcerr.FromHTTP(response); err != nil {
			return nil, fmt.Errorf("open tunnel: %w", err)
		}
		return nil, fmt.Errorf("open tunnel: got status %d, want 101", response.StatusCode)
	}
	if got := response.Header.Get("Upgrade"); !strings.EqualFold(got, protocol) {
		return nil, fmt.Errorf("open tunnel: peer switched to %q, want %q", got, protocol)
	}
	if !stop() {
		return nil, fmt.Errorf("open tunnel: %w", context.Cause(ctx))
	}
	return &turnedConn{Conn: conn, reader: reader, closed: make(chan struct{})}, conn.SetDeadline(time.Time{})
}

// turnedConn reads what came with the answer first: the peer's HTTP/2 preface may be in the same packet.
type turnedConn struct {
	net.Conn

	reader *bufio.Reader
	once   sync.Once
	closed chan struct{} // closed by Close
}

func (c *turnedConn) Read(p []byte) (int, error) {
	return c.reader.Read(p)
}

func (c *turnedConn) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// single is a listener that has one connection to offer.
type single struct {
	conn net.Conn

	once   sync.Once
	taken  sync.Once
	closed chan struct{}
}

func (s *single) Accept() (conn net.Conn, err error) {
	s.taken.Do(func() { conn = s.conn })
	if conn != nil {
		return conn, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

func (s *single) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }
