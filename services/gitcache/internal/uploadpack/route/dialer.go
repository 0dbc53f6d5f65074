// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"net"
	"time"
)

// DialTimeout bounds how long a connection may take, the handshake of a proxy included.
const DialTimeout = 15 * time.Second

// dialer makes connections that ask the guard before every write.
type dialer struct {
	net.Dialer
	guard    func() error
	received func(bytes int) // nil: no counter
}

func newDialer(guard func() error, received func(bytes int)) *dialer {
	return &dialer{Dialer: net.Dialer{Timeout: DialTimeout}, guard: guard, received: received}
}

// Dial implements proxy.Dialer, which wants it beside DialContext.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects, if the guard agrees.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := d.guard(); err != nil {
		return nil, err
	}
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return guardedConn{Conn: conn, dialer: d}, nil
}

// guardedConn asks the guard of its dialer before every write, and counts the bytes that it reads.
type guardedConn struct {
	net.Conn
	dialer *dialer
}

// Read implements net.Conn.
func (c guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.dialer.received != nil && n > 0 {
		c.dialer.received(n)
	}
	return n, err
}

// Write implements net.Conn. If the guard does not agree, Write also closes the connection:
// otherwise a reader would wait for the answer to a request that was never sent.
func (c guardedConn) Write(p []byte) (int, error) {
	if err := c.dialer.guard(); err != nil {
		_ = c.Close() // sends no bytes
		return 0, err
	}
	return c.Conn.Write(p)
}
