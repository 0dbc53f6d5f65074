// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// turnsAtOnce is how many anonymous connections may be read at once. One read brings a TLS
	// record, and so up to 100 requests, each of which has a goroutine before any bound can count
	// it.
	turnsAtOnce = 16
	// turnLasts is how long a turn lasts at most. A connection that has failed is not read again,
	// and stays open until its peer knows.
	turnLasts = 50 * time.Millisecond
	// turnPatience is how long bytes wait for a turn. After that they are read without one.
	turnPatience = 5 * time.Second
	// lingerTimeout is how long, and lingerBytes how much, the server reads of a connection over
	// HTTP/1.1 whose request it has refused while the client was sending the body.
	lingerTimeout = 5 * time.Second
	lingerBytes   = 16 << 20
)

// turns lets few anonymous connections be read at once, so that many connections cannot begin all
// their requests at the same time. One address has a quarter of the turns. A connection keeps its
// turn until the server reads it again, up to [turnLasts]: by then the server has begun all
// requests that it had read. It is safe for concurrent use.
type turns struct {
	all *semaphore.Weighted

	mu        sync.Mutex
	byAddress map[netip.Prefix]*addressTurns
}

// addressTurns are the turns of one address, while it has connections.
type addressTurns struct {
	turns *semaphore.Weighted
	conns int
}

func newTurns() *turns {
	return &turns{all: semaphore.NewWeighted(turnsAtOnce), byAddress: map[netip.Prefix]*addressTurns{}}
}

// turnListener accepts connections that [turns.join] finds.
type turnListener struct{ net.Listener }

// Accept implements net.Listener.
func (l turnListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &turnConn{Conn: conn}, nil
}

// join has a connection, which may be below TLS, take turns from now on. An address without a limit
// of its own has shared set.
func (t *turns) join(conn net.Conn, from netip.Prefix, shared bool) *turnConn {
	c, ok := rawConn(conn).(*turnConn)
	if !ok {
		return nil
	}
	c.turns = t
	if !shared {
		t.mu.Lock()
		defer t.mu.Unlock()
		own := t.byAddress[from]
		if own == nil {
			own = &addressTurns{turns: semaphore.NewWeighted(turnsAtOnce / addressShare)}
			t.byAddress[from] = own
		}
		own.conns++
		c.own, c.from = own, from
	}
	return c
}

// leave forgets a connection that has joined.
func (t *turns) leave(c *turnConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.own == nil {
		return
	}
	if c.own.conns--; c.own.conns == 0 {
		delete(t.byAddress, c.from)
	}
}

// turn is one that a connection has. The timer ends it.
type turn struct{ timer *time.Timer }

// turnConn is a connection that takes turns until its caller is verified.
type turnConn struct {
	net.Conn

	turns *turns // nil: it takes no turns
	own   *addressTurns
	from  netip.Prefix

	// over reports that the connection takes no more turns: its caller is verified, or it is closed.
	over atomic.Bool
	// handedOver reports that a handler has hijacked the connection.
	handedOver atomic.Bool

	waiting atomic.Pointer[context.CancelFunc] // ends the wait for a turn
	holding atomic.Pointer[turn]
}

// Read implements net.Conn. Bytes that have arrived wait for a turn.
func (c *turnConn) Read(p []byte) (int, error) {
	c.pass()
	n, err := c.Conn.Read(p)
	if n > 0 && c.turns != nil && !c.over.Load() {
		c.take()
	}
	return n, err
}

// take waits for a turn, up to [turnPatience] or until finish is called. It first lets the
// goroutines run that earlier turns have begun.
func (c *turnConn) take() {
	runtime.Gosched()
	ctx, cancel := context.WithTimeout(context.Background(), turnPatience)
	defer cancel()
	c.waiting.Store(&cancel)
	if c.over.Load() { // finish may have come before there was a wait to end
		return
	}
	if c.own != nil && c.own.turns.Acquire(ctx, 1) != nil {
		return
	}
	if c.turns.all.Acquire(ctx, 1) != nil {
		c.releaseOwn()
		return
	}
	held := &turn{}
	held.timer = time.AfterFunc(turnLasts, func() {
		if c.holding.CompareAndSwap(held, nil) {
			c.release()
		}
	})
	c.holding.Store(held)
	if c.over.Load() { // it was closed meanwhile, and the server will not read it again
		c.pass()
	}
}

// pass gives the turn to another connection, if this one has it.
func (c *turnConn) pass() {
	if held := c.holding.Swap(nil); held != nil {
		held.timer.Stop()
		c.release()
	}
}

func (c *turnConn) release() {
	c.turns.all.Release(1)
	c.releaseOwn()
}

func (c *turnConn) releaseOwn() {
	if c.own != nil {
		c.own.turns.Release(1)
	}
}

// finish ends the turns of a connection whose caller is verified, or that is closed. It also ends a
// wait for a turn.
func (c *turnConn) finish() {
	c.over.Store(true)
	if cancel := c.waiting.Load(); cancel != nil {
		(*cancel)()
	}
	c.pass()
}

// Close implements net.Conn.
func (c *turnConn) Close() error {
	c.finish()
	return c.Conn.Close()
}

// CloseWrite ends the direction to the peer, where the connection below can.
//
// net/http calls it after an answer, before the end of the request's body, and closes the
// connection half a second later. Closing a connection with unread bytes resets it, and a client
// that is still sending would lose the answer. Therefore CloseWrite then reads until the client
// closes its side, up to [lingerTimeout] and [lingerBytes], as RFC 9112, section 9.6, describes.
func (c *turnConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	err := half.CloseWrite()
	if err == nil && !c.handedOver.Load() {
		_ = c.SetReadDeadline(time.Now().Add(lingerTimeout)) // fails if the connection is closed, and then reads fail too
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	return err
}

// ReadFrom implements io.ReaderFrom, by which net/http has the kernel send a file.
func (c *turnConn) ReadFrom(r io.Reader) (int64, error) {
	if sender, ok := c.Conn.(io.ReaderFrom); ok {
		return sender.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

// NetConn returns the connection below, as tls.Conn's does.
func (c *turnConn) NetConn() net.Conn { return c.Conn }

// plainConn is a connection without TLS, as net/http has it. Once it is detached, net/http closes it no more.
type plainConn struct {
	*turnConn

	isDetached atomic.Bool
}

// Close implements net.Conn.
func (c *plainConn) Close() error {
	if c.isDetached.Load() {
		return nil
	}
	return c.turnConn.Close()
}

// isDetached reports whether a connection no longer belongs to net/http.
func isDetached(conn net.Conn) bool {
	plain, ok := conn.(*plainConn)
	return ok && plain.isDetached.Load()
}

// rawConn returns the connection below TLS, whose Close does not block, and closes a detached one, too.
func rawConn(conn net.Conn) net.Conn {
	switch conn := conn.(type) {
	case *tls.Conn:
		return conn.NetConn()
	case *plainConn:
		return conn.turnConn
	default:
		return conn
	}
}
