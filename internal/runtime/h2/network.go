// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// buffers are used while bytes wait to be written, so that idle connections have none.
var buffers sync.Pool // of *[]byte

// maxKept is the capacity of the largest buffer that is kept for others.
const maxKept = 256 << 10

// newBuffer returns an empty buffer, or nil if none is free.
func newBuffer() []byte {
	if b, ok := buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

// freeBuffer keeps a buffer for others.
func freeBuffer(p []byte) {
	if cap(p) <= maxKept {
		buffers.Put(&p)
	}
}

// network is the connection below HTTP/2.
type network struct {
	net.Conn

	coalesced *coalesced   // below TLS; nil if [Coalesce] was not used
	heard     atomic.Int64 // when the last byte came, in nanoseconds
}

// Read implements io.Reader, and records when something came.
func (n *network) Read(p []byte) (int, error) {
	read, err := n.Conn.Read(p)
	if read > 0 {
		n.heard.Store(time.Now().UnixNano())
	}
	return read, err
}

// write writes bytes together, where they would become several records of TLS.
func (n *network) write(p []byte) (int, error) {
	if n.coalesced == nil || len(p) <= leastCoalesced || !n.coalesced.isEstablished() {
		return n.Write(p)
	}
	n.coalesced.hold()
	written, err := n.Write(p)
	return written, cmp.Or(err, n.coalesced.release())
}

// close closes the connection. TLS first sends an alert. It does not do so while another goroutine
// writes, but it does not know of a current write below it, for which the alert would wait.
func (n *network) close() error {
	if n.coalesced != nil && n.coalesced.flushing.Load() {
		_ = n.coalesced.Close()
	}
	return n.Close()
}

// leastCoalesced is the size up to which crypto/tls never uses several records.
const leastCoalesced = 1 << 10

// Coalesce returns a connection to put under TLS, below a [Client] or [Server] or below
// http.Transport with a [Pool]. The TLS records of one write of theirs leave together. TLS by
// itself writes each record on its own, of 16 KiB at most, and so makes four system calls in place
// of one.
func Coalesce(conn net.Conn) net.Conn { return &coalesced{Conn: conn} }

// CoalesceAll is [Coalesce] for the connections that a listener accepts.
func CoalesceAll(listener net.Listener) net.Listener { return coalescing{listener} }

type coalescing struct{ net.Listener }

// Accept implements net.Listener.
func (l coalescing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Coalesce(conn), nil
}

// coalesced keeps written bytes from hold to release. Other goroutines may write meanwhile, as TLS
// does to answer its peer: everything stays in order.
type coalesced struct {
	net.Conn

	over        *tls.Conn
	established bool // the writer's

	flushing atomic.Bool // release writes

	mu        sync.Mutex
	isHolding bool
	held      []byte
}

// coalescedBelow returns the connection of [Coalesce] below the TLS of a connection, or nil if
// there is none. Layers have NetConn, as tls.Conn does.
func coalescedBelow(conn net.Conn) *coalesced {
	for over := (*tls.Conn)(nil); ; {
		if below, ok := conn.(*coalesced); ok && over != nil {
			below.over = over
			return below
		}
		layer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		if secured, ok := conn.(*tls.Conn); ok {
			over = secured
		}
		conn = layer.NetConn()
	}
}

// Write implements net.Conn.
func (c *coalesced) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isHolding {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

// isEstablished reports whether the TLS handshake is complete. It blocks during the handshake,
// which would not end if its bytes were held.
func (c *coalesced) isEstablished() bool {
	c.established = c.established || c.over.ConnectionState().HandshakeComplete
	return c.established
}

// hold keeps bytes that are written from now on.
func (c *coalesced) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isHolding, c.held = true, newBuffer()
}

// release writes the held bytes. It keeps the lock, so that later bytes come behind.
func (c *coalesced) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.held
	c.isHolding, c.held = false, nil
	if len(p) == 0 {
		return nil
	}
	c.flushing.Store(true)
	defer c.flushing.Store(false)
	_, err := c.Conn.Write(p)
	freeBuffer(p)
	return err
}
