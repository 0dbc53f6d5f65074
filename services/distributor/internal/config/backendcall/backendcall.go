// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package backendcall makes the HTTP calls by which adapters of configuration back ends read.
//
// A back end is hostile: its server may redirect, answer without end, drip, or be at the hub's own
// machine. A Client follows no redirect, reads a bounded number of bytes in a bounded time, dials
// no address that its guard refuses, and repeats nothing of a server's answer beyond its status.
package backendcall

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
)

const (
	// callTimeout bounds one call, and dialTimeout a connection.
	callTimeout = 10 * time.Second
	dialTimeout = 5 * time.Second
	// MaxAnswer bounds an answer: an entry as JSON, in which characters may take six bytes.
	MaxAnswer = 6*configs.MaxEntryBytes + 64<<10
	maxHeader = 64 << 10
	// longestWait bounds what a server's seconds are taken for.
	longestWait = 100 * 365 * 24 * time.Hour
)

// Params are the parts of a Client. The zero value trusts the system's certificates and dials
// public addresses.
type Params struct {
	// Control decides which addresses are dialled, as net.Dialer.Control does. Nil: a zero
	// dialguard.Guard.
	Control func(network, address string, conn syscall.RawConn) error
	// CAPEM are the certificates to trust. Empty: the system's.
	CAPEM string
	// Certificate is the certificate that the client shows. Nil: none.
	Certificate *tls.Certificate
	// Carrier takes the calls instead of connections of the client's own, and the fields above do not
	// matter: for tests without a network. Nil: there is none.
	Carrier http.RoundTripper
}

// Client makes calls. It is safe for concurrent use.
type Client struct{ http *http.Client }

// New returns a Client, which has not dialled yet.
func New(p Params) (*Client, error) {
	if p.Carrier != nil {
		return newClient(p.Carrier), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.CAPEM != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(p.CAPEM)) {
			return nil, errors.New("ca_pem holds no certificate")
		}
	}
	if p.Certificate != nil {
		config.Certificates = []tls.Certificate{*p.Certificate}
	}
	if p.Control == nil {
		p.Control = dialguard.Guard{}.Control
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Control: p.Control}
	return newClient(&http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader, MaxConnsPerHost: 2 * configs.MaxReads,
		IdleConnTimeout: time.Minute,
	}), nil
}

func newClient(carrier http.RoundTripper) *Client {
	return &Client{http: &http.Client{
		Timeout: callTimeout, Transport: carrier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer that has no meaning for an entry.
type StatusError struct{ Code int }

// Error implements error.
func (e *StatusError) Error() string {
	if e.Code >= 300 && e.Code < 400 {
		return fmt.Sprintf("the server redirects (%d), which is not followed; correct the url of the back end", e.Code)
	}
	return fmt.Sprintf("the server answered with status %d", e.Code)
}

// Do makes a call and returns the body and the header of an answer with status 200 or 204. Other
// answers are a *configs.NotFoundError (404 and 410), a *configs.DeniedError (403), a
// *configs.ThrottledError (429, and 503 that names the time to wait), or a *StatusError. No error
// holds the request or the answer.
func (c *Client) Do(req *http.Request) ([]byte, http.Header, error) {
	res, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL
		}
		return nil, nil, fmt.Errorf("the server does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	wait := retryAfter(res.Header.Get("Retry-After"))
	switch code := res.StatusCode; {
	case code == http.StatusOK || code == http.StatusNoContent:
	case code == http.StatusNotFound || code == http.StatusGone:
		return nil, nil, &configs.NotFoundError{}
	case code == http.StatusForbidden:
		return nil, nil, &configs.DeniedError{}
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable && wait > 0:
		return nil, nil, &configs.ThrottledError{After: wait}
	default:
		return nil, nil, &StatusError{Code: code}
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
	if err != nil {
		return nil, nil, errors.New("the answer ended early, or took too long")
	}
	if len(content) > MaxAnswer {
		return nil, nil, fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	return content, res.Header, nil
}

func retryAfter(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return Seconds(n)
}

// Seconds returns a duration of a server, without overflow.
func Seconds(n int64) time.Duration {
	return time.Duration(max(0, min(n, int64(longestWait/time.Second)))) * time.Second
}

// Escaped returns a path whose elements stay what they are in a URL.
func Escaped(path string) string {
	elements := strings.Split(path, "/")
	for i, element := range elements {
		elements[i] = url.PathEscape(element)
	}
	return strings.Join(elements, "/")
}
