// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxInformational is how many informational answers may precede the final one.
	maxInformational = 5
	// maxAnswerHead bounds the bytes of an answer's head, including the informational answers
	// before it. The hub accepts at most 64 KiB.
	maxAnswerHead = 128 << 10
)

// UpgraderParams are the settings of NewUpgrader.
type UpgraderParams struct {
	// Dial opens connections. Nil: the network's own dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the configuration for https. Nil: the system's authorities and no client certificate.
	TLS *tls.Config
	// Proxy returns the proxy for a request, or nil for a direct connection. Nil: all connections
	// are direct.
	Proxy func(*http.Request) (*url.URL, error)
	// DialTimeout bounds connecting, TLS included. Zero: 10 s.
	DialTimeout time.Duration
	// AnswerTimeout bounds the wait for the answer. Zero: two minutes.
	AnswerTimeout time.Duration
}

// Upgrader sends requests to switch the protocol. Each has a connection of its own with HTTP/1.1,
// because HTTP/2 has no upgrades. The request has neither a body nor headers that frame one, which
// servers would take for the first bytes of the new protocol. Upgrader is safe for concurrent use.
type Upgrader struct {
	params UpgraderParams
	tls    *tls.Config
}

var _ http.RoundTripper = (*Upgrader)(nil)

// NewUpgrader returns an Upgrader that has no connection yet.
func NewUpgrader(p UpgraderParams) *Upgrader {
	if p.Dial == nil {
		p.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	p.DialTimeout, p.AnswerTimeout = cmp.Or(p.DialTimeout, dialTimeout), cmp.Or(p.AnswerTimeout, answerTimeout)
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.TLS != nil {
		config = p.TLS.Clone()
	}
	config.NextProtos = []string{"http/1.1"} // a server that may choose selects HTTP/2
	return &Upgrader{params: p, tls: config}
}

// RoundTrip sends the request. If its RequestURI is set, it is sent unchanged. The body of an
// answer 101 is a [Joined]. Closing an answer's body closes the connection.
func (u *Upgrader) RoundTrip(req *http.Request) (*http.Response, error) {
	conn, err := u.dial(req)
	if err != nil {
		return nil, &dialError{err}
	}
	closing := context.AfterFunc(req.Context(), func() { _ = conn.Close() })
	res, reader, err := u.exchange(conn, req)
	if err != nil {
		closing()
		return nil, errors.Join(err, conn.Close())
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = &Joined{Conn: conn, reader: reader, closing: closing}
		return res, nil
	}
	res.Body = &lastBody{ReadCloser: res.Body, conn: conn, closing: closing}
	return res, nil
}

// exchange sends the request and reads the head of the answer.
func (u *Upgrader) exchange(conn net.Conn, req *http.Request) (*http.Response, *bufio.Reader, error) {
	request, err := requestHead(req)
	if err != nil {
		return nil, nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(u.params.AnswerTimeout)); err != nil {
		return nil, nil, fmt.Errorf("set deadline: %w", err)
	}
	if _, err := conn.Write(request); err != nil {
		return nil, nil, fmt.Errorf("send upgrade request: %w", err)
	}
	head := &headReader{reader: conn, left: maxAnswerHead}
	reader := bufio.NewReader(head)
	for range maxInformational {
		res, err := http.ReadResponse(reader, req)
		if err != nil {
			return nil, nil, fmt.Errorf("read answer to upgrade: %w", err)
		}
		if res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols {
			continue // a 100 or a 103: the final answer follows
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			return nil, nil, fmt.Errorf("clear deadline: %w", err)
		}
		head.left = -1
		return res, reader, nil
	}
	return nil, nil, errors.New("read answer to upgrade: the server sent only informational answers")
}

// headReader bounds the head of an answer, which http.ReadResponse does not bound.
type headReader struct {
	reader io.Reader
	left   int // bytes that may still be read; negative: unbounded
}

var errLongHead = fmt.Errorf("head of the answer is longer than %d bytes", maxAnswerHead)

// Read implements io.Reader.
func (h *headReader) Read(p []byte) (int, error) {
	if h.left < 0 {
		return h.reader.Read(p)
	}
	if h.left == 0 {
		return 0, errLongHead
	}
	n, err := h.reader.Read(p[:min(len(p), h.left)])
	h.left -= n
	return n, err
}

// requestHead returns the bytes of an upgrade request, which is only a head.
func requestHead(req *http.Request) ([]byte, error) {
	target, host := cmp.Or(req.RequestURI, req.URL.RequestURI()), cmp.Or(req.Host, req.URL.Host)
	if strings.ContainsFunc(req.Method+target+host, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil, fmt.Errorf("request line %q: holds a space or control character", req.Method+" "+target)
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", req.Method, target, host)
	// Neither a length nor an encoding: the following bytes belong to the new protocol.
	if err := req.Header.WriteSubset(&head, map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true}); err != nil {
		return nil, fmt.Errorf("write header: %w", err)
	}
	head.WriteString("\r\n")
	return head.Bytes(), nil
}

// dial connects to the request's host, through TLS for https.
func (u *Upgrader) dial(req *http.Request) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(req.Context(), u.params.DialTimeout)
	defer cancel()
	conn, err := u.connect(ctx, req)
	if err != nil || req.URL.Scheme != "https" {
		return conn, err
	}
	config := u.tls
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName = req.URL.Hostname()
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("begin TLS: %w", err), conn.Close())
	}
	return secure, nil
}

// connect opens the connection, by way of a proxy if there is one.
func (u *Upgrader) connect(ctx context.Context, req *http.Request) (net.Conn, error) {
	var proxy *url.URL
	if u.params.Proxy != nil {
		var err error
		if proxy, err = u.params.Proxy(req); err != nil {
			return nil, fmt.Errorf("find proxy: %w", err)
		}
	}
	if proxy == nil {
		return u.params.Dial(ctx, "tcp", hostPort(req.URL))
	}
	if proxy.Scheme != "http" {
		return nil, fmt.Errorf("proxy %s: upgraded connections go through http proxies only", proxy.Redacted())
	}
	conn, err := u.params.Dial(ctx, "tcp", hostPort(proxy))
	if err != nil {
		return nil, err
	}
	if err := tunnelThrough(ctx, conn, proxy, hostPort(req.URL)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// tunnelThrough asks a proxy for a connection to the address.
func tunnelThrough(ctx context.Context, conn net.Conn, proxy *url.URL, address string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		plain := &http.Request{Header: http.Header{}}
		plain.SetBasicAuth(user.Username(), password)
		req.Header.Set("Proxy-Authorization", plain.Header.Get("Authorization"))
	}
	if err := req.Write(conn); err != nil {
		return fmt.Errorf("ask proxy: %w", err)
	}
	// The server behind the proxy does not send first, so the reader consumes only the proxy's
	// bytes.
	res, err := http.ReadResponse(bufio.NewReader(&headReader{reader: conn, left: maxAnswerHead}), req)
	if err != nil {
		return fmt.Errorf("ask proxy: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return fmt.Errorf("ask proxy: it answered %s", res.Status)
	}
	return nil
}

func hostPort(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return net.JoinHostPort(u.Hostname(), port)
}

// Joined is a connection whose server has switched protocols.
type Joined struct {
	net.Conn

	reader  *bufio.Reader // holds bytes that came with the answer
	closing func() bool
}

// Read implements io.Reader.
func (j *Joined) Read(p []byte) (int, error) { return j.reader.Read(p) }

// CloseWrite ends the direction to the server.
func (j *Joined) CloseWrite() error {
	if half, ok := j.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends both directions.
func (j *Joined) Close() error {
	j.closing()
	return j.Conn.Close()
}

// lastBody is the body of an answer after which the connection is useless.
type lastBody struct {
	io.ReadCloser

	conn    net.Conn
	closing func() bool
}

// Close implements io.Closer. It closes the connection first, because the body's own Close would
// read to its end.
func (b *lastBody) Close() error {
	b.closing()
	return errors.Join(b.conn.Close(), b.ReadCloser.Close())
}

// dialError means that there was no connection, so the request cannot have had an effect.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }
