// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"net"
	"sync"
)

// Pipes is a listener without a port: its connections are pipes within the process, which a bubble
// of testing/synctest needs. All methods may be called concurrently.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes returns a listener to which Dial connects.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Single returns a listener that accepts this connection, and then blocks until it is closed.
// Closing it leaves the connection open.
func Single(conn net.Conn) *Pipes {
	p := &Pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	p.conns <- conn
	return p
}

// Dial blocks until the connection is accepted. It has the form of [net.Dialer.DialContext], and
// ignores the address. It fails if the listener is closed or ctx is done first.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It leaves the connections open.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener. The address is the same for all listeners.
func (*Pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

// Network implements net.Addr.
func (pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (pipeAddr) String() string { return "pipe.test:80" }
