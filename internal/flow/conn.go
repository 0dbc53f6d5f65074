// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package flow makes the windows of HTTP/2 (RFC 9113, 5.2) follow their readers, and bounds what is kept for readers that do not read.
//
// A window is how much the peer may send on a stream before its reader has taken anything. A large one is memory that a reader who
// stands still holds; a small one limits a fast reader to one window per round trip: 512 KiB over 50 ms are 10 MiB/s. Go's HTTP/2 has
// windows of one size. So it is told a large one, and the peer a small one: [Conn] stands below HTTP/2, announces less than HTTP/2
// does, and adds the rest to HTTP/2's own window updates of those streams that use up their window in about a round trip.
//
// What was received and not read yet is counted over all connections against a [Budget]. When there is too much, the streams go first
// whose readers have stood still for the longest. As long as the budget is smaller than the connections' windows, readers that stand
// still cannot stop others on their connection.
package flow

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minRoundTrip is below what no window has to grow: the smallest ones then allow more than 200 MiB/s.
	minRoundTrip = 2 * time.Millisecond
	// maxConnectionWindow is the largest that HTTP/2 can tell a peer, whose window is 64 KiB - 1 at first.
	maxConnectionWindow = 1<<31 - 1 - 65_535
)

// Windows are the windows of one side of a connection, in bytes.
type Windows struct {
	// Initial is what a stream may send at first, Max what it may send when its reader keeps up.
	Initial, Max int
}

// DefaultWindows allow 300 MiB/s on a stream over 50 ms.
func DefaultWindows() Windows { return Windows{Initial: 512 << 10, Max: 16 << 20} }

// Stream is the window that HTTP/2 is to be configured with.
func (w Windows) Stream() int { return w.Max }

// Connection is the connection's window that HTTP/2 is to be configured with. It is larger than any budget.
func (Windows) Connection() int { return maxConnectionWindow }

// Conn is a connection on which HTTP/2 is spoken, from its first byte. It belongs between the network and HTTP/2. Like any net.Conn it
// may be used by one reader and one writer at a time.
type Conn struct {
	net.Conn

	windows   Windows
	budget    *Budget
	roundTrip atomic.Int64 // nanoseconds; zero while it is not known

	in  frames // only the reader uses it
	out frames // only the writer uses it

	opened bool // whether HTTP/2 has announced the connection's window; only the writer uses it

	mu      sync.Mutex
	closed  bool
	unread  int64
	streams map[uint32]*stream
}

// stream is what a stream's window has grown to.
type stream struct {
	window   int
	consumed int       // since
	since    time.Time // when counting began
}

// Client returns a connection for HTTP/2's client side, whose windows are w.
func (b *Budget) Client(conn net.Conn, w Windows) *Conn {
	c := b.conn(conn, w)
	c.out.skip = preface
	return c
}

// Server returns a connection for HTTP/2's server side, whose windows are w.
func (b *Budget) Server(conn net.Conn, w Windows) *Conn {
	c := b.conn(conn, w)
	c.in.skip = preface
	return c
}

func (b *Budget) conn(conn net.Conn, w Windows) *Conn {
	return &Conn{Conn: conn, windows: w, budget: b, streams: map[uint32]*stream{}}
}

// SetRoundTrip says how long the way to the peer and back takes. The shortest time that was ever said counts: what takes longer was
// held up by something else.
func (c *Conn) SetRoundTrip(d time.Duration) {
	for {
		known := c.roundTrip.Load()
		if d <= 0 || known != 0 && known <= int64(d) || c.roundTrip.CompareAndSwap(known, int64(d)) {
			return
		}
	}
}

// RoundTrip is what SetRoundTrip was told, zero before.
func (c *Conn) RoundTrip() time.Duration { return time.Duration(c.roundTrip.Load()) }

// Unread is how many bytes of all streams were received and not read, within a few KiB.
func (c *Conn) Unread() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unread
}

// count adds to what is unread, until the connection is closed.
func (c *Conn) count(bytes int) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.unread += int64(bytes)
	}
	c.mu.Unlock()
	if !closed {
		c.budget.add(int64(bytes))
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.follow(p[:n], c.received)
	return n, err
}

func (c *Conn) received(f frame, _ []byte) {
	if f.kind == frameData {
		c.count(f.length)
	}
	if f.endsStream() {
		c.forget(f.stream)
	}
}

// Write implements net.Conn. It changes window updates and settings in p, which HTTP/2 writes out of a buffer of its own.
func (c *Conn) Write(p []byte) (int, error) {
	c.out.follow(p, c.sent)
	return c.Conn.Write(p)
}

func (c *Conn) sent(f frame, payload []byte) {
	switch {
	case f.kind == frameSettings && f.flags&flagAck == 0:
		c.announce(payload)
	case f.kind == frameRST:
		c.forget(f.stream)
	case f.kind == frameWindow && len(payload) == windowLen:
		increment := int(binary.BigEndian.Uint32(payload) & 0x7fffffff)
		if f.stream == 0 {
			c.read(increment)
			return
		}
		binary.BigEndian.PutUint32(payload, uint32(increment+c.grow(f.stream, increment)))
	}
}

// announce tells the peer the initial window instead of the one that HTTP/2 believes in.
func (c *Conn) announce(settings []byte) {
	for ; len(settings) >= settingLen; settings = settings[settingLen:] {
		if binary.BigEndian.Uint16(settings) == settingInitialWindow {
			binary.BigEndian.PutUint32(settings[2:], uint32(c.windows.Initial))
		}
	}
}

// read takes off what HTTP/2 gives back of the connection's window: what was read, or will never be. The first time it announces the
// window.
func (c *Conn) read(increment int) {
	if !c.opened {
		c.opened = true
		return
	}
	c.count(-increment)
}

// grow returns what to add to a window update: as much again as the window is, when half of it was used up within a round trip or so.
func (c *Conn) grow(id uint32, increment int) int {
	roundTrip := c.RoundTrip()
	if roundTrip < minRoundTrip {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s, ok := c.streams[id]
	if !ok { // how long what was read so far has taken is not known
		c.streams[id] = &stream{window: c.windows.Initial, since: now}
		return 0
	}
	s.consumed += increment
	if s.consumed < s.window/2 {
		return 0
	}
	fast := now.Sub(s.since) <= roundTrip*3/2
	s.consumed, s.since = 0, now
	if !fast || c.budget.tight() {
		return 0
	}
	more := min(s.window, c.windows.Max-s.window)
	s.window += more
	return more
}

func (c *Conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, id)
}

// Close implements net.Conn. What was not read is nobody's any more.
func (c *Conn) Close() error {
	c.mu.Lock()
	unread := c.unread
	c.unread, c.closed = 0, true
	c.mu.Unlock()
	c.budget.add(-unread)
	return c.Conn.Close()
}
