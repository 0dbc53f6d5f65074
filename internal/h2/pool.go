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

// Pool is the HTTP/2 of an http.Transport, in place of net/http's: the transport dials, with its proxies and its TLS, and speaks
// HTTP/1.1 with servers that choose that. It is safe for concurrent use.
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

// Install has a transport that has no connection yet use the pool.
func (p *Pool) Install(transport *http.Transport) {
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{
		"h2": func(_ string, conn *tls.Conn) http.RoundTripper {
			if err := p.take(conn); err != nil {
				return stillborn{err}
			}
			return p
		},
	}
}

// stillborn stands for a connection that has ended before the server has said anything.
type stillborn struct{ err error }

// RoundTrip implements http.RoundTripper.
func (s stillborn) RoundTrip(*http.Request) (*http.Response, error) { return nil, s.err }

// RoundTripErr is how an http.Transport learns that dialling has failed. It would dial again and again otherwise.
func (s stillborn) RoundTripErr() error { return s.err }

// take adds a connection, unless there is one that has room: requests that come at the same time have one dialled each.
func (p *Pool) take(conn *tls.Conn) error {
	client := NewClient(conn, p.settings, p.budget)
	select { // the server says first how much it takes
	case <-client.greeted:
	case <-client.Done():
		return fmt.Errorf("begin HTTP/2: %w", client.Err())
	}
	if err := client.Ready(); err != nil { // the next one would say the same
		return errors.Join(fmt.Errorf("begin HTTP/2: %w", err), client.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready() != nil {
		client.closeIfIdle()
		return nil
	}
	p.clients = append(p.clients, client)
	return nil
}

// ready returns a connection that takes a request. It forgets those that never will again, and closes those that are left over of a time
// when more were needed. The lock is held.
func (p *Pool) ready() *Client {
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

// IsHTTP2NoCachedConnError is how an http.Transport knows it.
func (errNoConnection) IsHTTP2NoCachedConnError() {}

// RoundTrip implements http.RoundTripper. A request that the server has certainly not begun is sent again over another connection.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	client := p.ready()
	p.mu.Unlock()
	if client == nil {
		return nil, errNoConnection{}
	}
	call := newCall(req)
	res, err := client.send(call)
	if (errors.Is(err, ErrRefused) || errors.Is(err, ErrFull)) && call.untouched() {
		return nil, errNoConnection{}
	}
	if err != nil {
		call.closeBody()
	}
	return res, err
}

// Before returns a transport that uses the pool's connections where there are some, and otherwise next, which leads to a transport with
// the pool installed. It spares requests what an http.Transport does for each to find a connection. All of them must be for the same
// server.
func (p *Pool) Before(next http.RoundTripper) http.RoundTripper { return before{p, next} }

type before struct {
	pool *Pool
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b before) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.pool.RoundTrip(req)
	if _, none := err.(errNoConnection); none { //nolint:errorlint // it is never wrapped
		return b.next.RoundTrip(req)
	}
	return res, err
}

// WrappedRoundTripper is how client-go looks behind a transport.
func (b before) WrappedRoundTripper() http.RoundTripper { return b.next }

// CloseIdleConnections closes the connections as soon as they carry no request.
func (p *Pool) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.closeIfIdle()
	}
}
