// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"net"
	"sync"
)

// singleListener has one connection to offer.
type singleListener struct {
	conn net.Conn

	once   sync.Once
	taken  sync.Once
	closed chan struct{}
}

// Single returns a listener that accepts this connection, and then blocks until it is closed.
// Closing it leaves the connection open.
func Single(conn net.Conn) net.Listener {
	return &singleListener{conn: conn, closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (s *singleListener) Accept() (conn net.Conn, err error) {
	s.taken.Do(func() { conn = s.conn })
	if conn != nil {
		return conn, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *singleListener) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *singleListener) Addr() net.Addr { return s.conn.LocalAddr() }
