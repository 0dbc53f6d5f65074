// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// Pool is the HTTP/2 of an http.Transport, in place of net/http's: the transport dials, with its
// proxies and its TLS, and speaks HTTP/1.1 with servers that choose that. It is safe for concurrent
// use.
type Pool struct {
	settings Settings
	budget   *Budget

	mu      sync.Mutex
	clients []*Client
}

// NewPool returns a pool for one server. The settings must be valid.
func NewPool(settings Settings, budget *Budget) *Pool {
	return &Pool{settings: settings, budget: budget}
}

// Install makes a transport use the pool. The transport must not have any connection yet.
func (p *Pool) Install(transport *http.Transport) {
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{
		"h2": func(_ string, conn *tls.Conn) http.RoundTripper {
			if err := p.take(conn); err != nil {
				return failedConn{err}
			}
			return p
		},
	}
}

// failedConn stands for a connection that has ended before the server has sent its settings.
type failedConn struct{ err error }

// RoundTrip implements http.RoundTripper.
func (c failedConn) RoundTrip(*http.Request) (*http.Response, error) { return nil, c.err }

// RoundTripErr makes an http.Transport fail the request, as if dialling had failed. Otherwise it
// would dial without end.
func (c failedConn) RoundTripErr() error { return c.err }

// take adds a connection, unless another one has room: for requests that come at the same time, the
// transport dials one connection each.
func (p *Pool) take(conn *tls.Conn) error {
	client := NewClient(conn, p.settings, p.budget)
	select { // the server announces first how much it takes
	case <-client.begun:
	case <-client.Done():
		return fmt.Errorf("begin HTTP/2: %w", client.Err())
	}
	if err := client.Ready(); err != nil { // so would be the next one
		return errors.Join(fmt.Errorf("begin HTTP/2: %w", err), client.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readyLocked() != nil {
		client.closeIfIdle()
		return nil
	}
	p.clients = append(p.clients, client)
	return nil
}

// readyLocked returns a connection that takes a request; nil if there is none. It forgets the ones
// that never will again, and closes idle ones beyond the first that has room.
func (p *Pool) readyLocked() *Client {
	var found *Client
	p.clients = slices.DeleteFunc(p.clients, func(c *Client) bool {
		err := c.Ready()
		switch {
		case err == nil && found == nil:
			found = c
		case err == nil:
			return c.closeIfIdle()
		}
		return errors.Is(err, ErrRefused)
	})
	return found
}

// errNoConnection tells an http.Transport to dial.
type errNoConnection struct{}

// Error implements error.
func (errNoConnection) Error() string { return "http2: no connection has room" }

// IsHTTP2NoCachedConnError is the method by which an http.Transport recognizes the error.
func (errNoConnection) IsHTTP2NoCachedConnError() {}

// RoundTrip implements http.RoundTripper. The transport sends a request again over another
// connection if the server has certainly not begun it.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	client := p.readyLocked()
	p.mu.Unlock()
	if client == nil {
		return nil, errNoConnection{}
	}
	call := newCall(req)
	res, err := client.send(call)
	if (errors.Is(err, ErrRefused) || errors.Is(err, ErrFull)) && call.isUntouched() {
		return nil, errNoConnection{}
	}
	if err != nil {
		call.upload.closeBody()
	}
	return res, err
}

// Before returns a transport that uses the pool's connections if one has room, and otherwise next,
// which leads to a transport with the pool installed. It saves the work of an http.Transport to
// find a connection. All requests must be for the same server.
func (p *Pool) Before(next http.RoundTripper) http.RoundTripper { return pooledTransport{p, next} }

// pooledTransport asks the pool before the transport that dials.
type pooledTransport struct {
	pool *Pool
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t pooledTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.pool.RoundTrip(req)
	if _, ok := errors.AsType[errNoConnection](err); ok {
		return t.next.RoundTrip(req)
	}
	return res, err
}

// WrappedRoundTripper is the method by which client-go finds the transport behind this one.
func (t pooledTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// CloseIdleConnections closes the connections that carry no request.
func (p *Pool) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.closeIfIdle()
	}
}
