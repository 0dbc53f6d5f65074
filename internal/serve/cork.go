// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// corkTimeout is how long the head of an answer waits for its body at most. HTTP/2 writes the body at once, where the peer's
	// windows let it.
	corkTimeout = 20 * time.Millisecond
	// maxCorked is the size of the largest write that waits, and of the largest that it is joined with.
	maxCorked = 16 << 10
)

// CorkedConn is a connection on which the head of an answer can wait for its body, so that both are one packet. HTTP/2 in Go
// writes them one after the other: for small answers that are twice the system calls here, twice the wake-ups at the peer, and
// above TLS twice the records. See [CorkHead].
//
// It belongs below HTTP/2, or below TLS. Like any net.Conn it may be used by one reader and one writer at a time.
type CorkedConn struct {
	net.Conn

	next atomic.Bool // whether the next write may wait for the one behind it

	mu    sync.Mutex
	held  []byte
	timer *time.Timer
	armed bool  // the timer runs; it is left alone while there is traffic, since arming one wakes a thread
	used  bool  // something has waited since the timer fired
	err   error // what became of bytes that waited, when they could not be written
}

// NewCorkedConn returns a connection over conn.
func NewCorkedConn(conn net.Conn) *CorkedConn { return &CorkedConn{Conn: conn} }

// Write implements net.Conn. What waits counts as written; when it is not, the next call fails.
func (c *CorkedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.next.Load() && c.next.Swap(false) && len(p) <= maxCorked
	switch {
	case c.err != nil:
		return 0, c.err
	case len(c.held) > 0:
		return c.join(p)
	case waits:
		c.held, c.used = append(c.held, p...), true
		if !c.armed {
			c.arm()
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// join writes what waits, and p with it.
func (c *CorkedConn) join(p []byte) (int, error) {
	waiting := len(c.held)
	if len(p) > maxCorked {
		if _, err := c.Conn.Write(c.release()); err != nil {
			return 0, err
		}
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	n, err := c.Conn.Write(c.release())
	return max(n-waiting, 0), err
}

// release returns what waits, which then does no more. It is good until the next write.
func (c *CorkedConn) release() []byte {
	held := c.held
	c.held = held[:0]
	return held
}

// arm starts the timer. The caller holds the lock.
func (c *CorkedConn) arm() {
	c.armed, c.used = true, false
	if c.timer == nil {
		c.timer = time.AfterFunc(corkTimeout, c.expire)
		return
	}
	c.timer.Reset(corkTimeout)
}

// expire writes what waits, and looks again later while the connection is used.
func (c *CorkedConn) expire() {
	c.uncork()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed = false; c.used {
		c.arm()
	}
}

// uncork writes what waits without waiting any longer.
func (c *CorkedConn) uncork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 {
		return
	}
	// Nobody who could have set a deadline waits for this write.
	_ = c.SetWriteDeadline(time.Now().Add(writeByteTimeout))
	_, c.err = c.Conn.Write(c.release())
	_ = c.SetWriteDeadline(time.Time{})
}

// ReadFrom implements io.ReaderFrom, for the sake of files, which the kernel can send by itself.
func (c *CorkedConn) ReadFrom(r io.Reader) (int64, error) {
	c.uncork()
	return io.Copy(c.Conn, r)
}

// CloseWrite ends one direction, where the connection can.
func (c *CorkedConn) CloseWrite() error {
	c.uncork()
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// corkKey is where a request's context has its connection.
type corkKey struct{}

// WithCork is an http.Server's ConnContext, for connections that are [CorkedConn] or TLS over one.
func WithCork(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if corked, ok := conn.(*CorkedConn); ok {
		return context.WithValue(ctx, corkKey{}, corked)
	}
	return ctx
}

// CorkHead lets the head of an answer wait for the beginning of its body, for at most 20 ms. It is for answers whose body is
// at hand, or nearly so, and is to be called just before their WriteHeader. It does nothing where that would gain nothing:
// without a body, in HTTP/1.1, and on other connections than [CorkedConn].
func CorkHead(r *http.Request, status int, header http.Header) {
	length := header.Get("Content-Length")
	if r.ProtoMajor != 2 || r.Method == http.MethodHead || length == "" || length == "0" || status < http.StatusOK ||
		status == http.StatusNoContent || status == http.StatusNotModified {
		return
	}
	if conn, ok := r.Context().Value(corkKey{}).(*CorkedConn); ok {
		conn.next.Store(true)
	}
}

// corkedListener makes the connections that it accepts corked ones.
type corkedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l corkedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return NewCorkedConn(conn), nil
}
