// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// leastCoalesced is what crypto/tls never spreads over several records.
const leastCoalesced = 1 << 10

// Coalesce returns a connection to put under TLS, below a [Client] or [Server] or below http.Transport with a [Pool]. The records that
// one write of theirs becomes leave together. TLS by itself writes each of its own, of 16 KiB at most, and the network is asked four times
// to carry what it carries at once.
func Coalesce(conn net.Conn) net.Conn { return &coalesced{Conn: conn} }

// CoalesceAll is [Coalesce] for what a listener accepts.
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

// coalesced holds what is written to it from hold to release. Others may write meanwhile, as TLS does that answers its peer: everything
// stays in order.
type coalesced struct {
	net.Conn

	over        *tls.Conn
	established bool // over has shaken hands, which it cannot while anything is held; the writer's

	flushing atomic.Bool

	mu      sync.Mutex
	holding bool
	held    []byte
}

// coalescedBelow returns what [Coalesce] has put below the TLS of a connection, nil if nothing was. Layers have NetConn, as tls.Conn does.
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
	if !c.holding {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

// isEstablished reports whether TLS has shaken hands, and waits for that while it does.
func (c *coalesced) isEstablished() bool {
	c.established = c.established || c.over.ConnectionState().HandshakeComplete
	return c.established
}

func (c *coalesced) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = true
	if b, ok := buffers.Get().(*[]byte); ok {
		c.held = (*b)[:0]
	}
}

// release writes what is held. It keeps the lock, so that what is written meanwhile comes behind.
func (c *coalesced) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.held
	c.holding, c.held = false, nil
	if len(p) == 0 {
		return nil
	}
	c.flushing.Store(true)
	defer c.flushing.Store(false)
	_, err := c.Conn.Write(p)
	if cap(p) <= maxKept {
		buffers.Put(&p)
	}
	return err
}

// writeNet writes to the network.
func (c *conn) writeNet(p []byte) (int, error) {
	if c.below == nil || len(p) <= leastCoalesced || !c.below.isEstablished() {
		return c.net.Write(p)
	}
	c.below.hold()
	n, err := c.net.Write(p)
	return n, cmp.Or(err, c.below.release())
}

// closeNet closes the network's connection. TLS says goodbye first, unless somebody is writing: it would wait for that. It does not know of
// a write that goes on below it.
func (c *conn) closeNet() error {
	if c.below != nil && c.below.flushing.Load() {
		_ = c.below.Close()
	}
	return c.net.Close()
}
