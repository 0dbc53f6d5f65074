// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"net"
)

// wire is the network connection below an agent's HTTP/2. It first returns the bytes that the
// HTTP/1.1 server had read ahead, and announces its end, whichever side has closed it.
type wire struct {
	net.Conn

	early  []byte // only the reader uses it
	closed <-chan struct{}
	end    func() // closes closed
	// onClose calls a function when the connection has ended; at once where it has ended already.
	// The call has a goroutine of its own, because the closing goroutine may hold locks that it
	// needs. Until then it has none: waiting for the end of each of ten thousand connections in a
	// goroutine would cost more memory than the connections' own state.
	onClose func(call func())
}

func newWire(conn net.Conn, early []byte) *wire {
	open, end := context.WithCancel(context.Background())
	return &wire{
		Conn: conn, early: early, closed: open.Done(), end: end,
		onClose: func(call func()) { context.AfterFunc(open, call) },
	}
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.early) > 0 {
		n := copy(p, w.early)
		w.early = w.early[n:]
		return n, nil
	}
	return w.Conn.Read(p)
}

// NetConn returns the connection below, for HTTP/2.
func (w *wire) NetConn() net.Conn { return w.Conn }

// Close implements net.Conn. The end is announced before the connection is closed, because closing
// TLS may wait for a peer that is gone.
func (w *wire) Close() error {
	w.end()
	return w.Conn.Close()
}
