// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"net"
	"sync"
)

// wire is the network connection below an agent's HTTP/2. It first returns the bytes that the
// HTTP/1.1 server had read ahead, and announces its end, whichever side has closed it.
type wire struct {
	net.Conn

	early  []byte // only the reader uses it
	once   sync.Once
	closed chan struct{}
	closes closers
}

func newWire(conn net.Conn, early []byte) *wire {
	return &wire{Conn: conn, early: early, closed: make(chan struct{})}
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
	w.once.Do(func() {
		close(w.closed)
		w.closes.run()
	})
	return w.Conn.Close()
}

// closers are called once, when something ends; at once where it has ended already. Waiting for the
// end of each of ten thousand connections in a goroutine would cost more memory than the
// connections' own state.
type closers struct {
	mu    sync.Mutex
	ended bool
	calls []func()
}

func (c *closers) add(call func()) {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.calls = append(c.calls, call)
	}
	c.mu.Unlock()
	if ended {
		go call()
	}
}

// run starts the calls in a goroutine of their own: the closing goroutine may hold locks that they
// need.
func (c *closers) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if calls := c.calls; len(calls) > 0 {
		go func() {
			for _, call := range calls {
				call()
			}
		}()
	}
	c.calls = nil
}
