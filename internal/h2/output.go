// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// These constants bound what a connection keeps for a peer that reads slowly or not at all. The length of pending is at
// most their sum and one frame or header beyond maxPending. What is being written was pending before, so the same bound
// applies to it.
const (
	// maxPending is the number of pending bytes at which data and headers wait (CVE-2019-9517). It is also the size of
	// the largest data frame, even if the peer accepts larger ones.
	maxPending = 128 << 10
	// maxUrgent bounds the part of pending that cannot wait: resets, window updates, and answers to control frames.
	// More than that ends the connection (CVE-2019-9512, -9514, -9515).
	maxUrgent = 64 << 10
	// writeSize is how much is written at once. The peer has the write timeout for each.
	writeSize = 64 << 10
)

// output queues the frames that a connection has to write. A goroutine with a frame to send appends it and writes everything that is pending.
// If another goroutine is already writing, a new goroutine writes the rest after it. So frames that several goroutines
// send at the same time go out in one write, and no goroutine writes more than what was pending when it began. Streams
// with more data than there is room for take turns, one frame each. The connection's lock guards it.
//
// Headers and data wait for room in pending, see [stream.awaitRoom] and [stream.enqueue]. Everything else is appended
// by [conn.urge].
type output struct {
	pending []byte
	writing bool
	urgent  int       // bytes of pending that cannot wait
	most    int       // the most that was pending when a write began
	heads   []*stream // streams that wait for room for a header, in order of arrival
	line    []*stream // those that wait for room and the connection's window, in the order in which they came

	began atomic.Int64 // when the write that goes on began, in nanoseconds; zero when there is none
	watch *time.Timer
	armed bool
}

// buffers are lent while something is pending, so that idle connections have none.
var buffers sync.Pool // of *[]byte

// maxKept is the capacity of the largest buffer that is kept for others.
const maxKept = 2 * maxPending

// buffer is what to append to.
func (o *output) buffer() []byte {
	if o.pending == nil {
		if b, ok := buffers.Get().(*[]byte); ok {
			o.pending = (*b)[:0]
		}
	}
	return o.pending
}

// full reports whether headers and data must wait.
func (o *output) full() bool { return len(o.pending) >= maxPending }

// queue has a stream wait behind those that do.
func (o *output) queue(s *stream) {
	if !s.queued {
		s.queued = true
		o.line = append(o.line, s)
	}
}

func (o *output) stop() {
	if o.watch != nil {
		o.watch.Stop()
	}
	for _, s := range o.heads { // they may not be in the connection's streams yet
		s.sendable.Broadcast()
	}
}

// urge sets pending, to which the caller has appended a frame that cannot wait for room. It ends the connection if the
// peer leaves too many such bytes unread. The caller then flushes. The lock is held.
func (c *conn) urge(pending []byte) {
	c.out.urgent += len(pending) - len(c.out.pending)
	c.out.pending = pending
	if c.out.urgent > maxUrgent && c.err == nil {
		c.out.pending, c.out.urgent = pending[:0], 0 // makes room for the GOAWAY with the reason
		c.endLocked(http2.ErrCodeEnhanceYourCalm, errFlood)
	}
}

// flush writes what is pending, unless somebody is at it. The lock is held, and is released while it writes.
func (c *conn) flush() {
	if c.out.writing || len(c.out.pending) == 0 || c.err != nil {
		return
	}
	c.out.writing = true
	c.write()
	if len(c.out.pending) > 0 && c.writes() {
		go c.drain()
		return
	}
	c.written()
}

// written takes note that everything is written. The lock is held.
func (c *conn) written() {
	c.out.writing = false
	c.settle()
}

// flushSoon has what is pending written by somebody else. The lock is held.
func (c *conn) flushSoon() {
	if c.out.writing || len(c.out.pending) == 0 || c.err != nil {
		return
	}
	c.out.writing = true
	go c.drain()
}

func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out.pending) > 0 && c.writes() {
		c.write()
	}
	c.written()
}

// writes reports whether pending may still be written. The lock is held.
func (c *conn) writes() bool { return c.err == nil || c.lingering }

// takes reports whether a stream may append data: there is room, the connection's window is open, and no other stream
// has waited longer. Headers go first: they need no window, so they never wait for data. The lock is held.
func (c *conn) takes(s *stream) bool {
	return !c.out.full() && c.window > 0 && len(c.out.heads) == 0 && (len(c.out.line) == 0 || c.out.line[0] == s)
}

// takesHead reports whether a stream may append a header. The lock is held.
func (c *conn) takesHead(s *stream) bool {
	return !c.out.full() && (len(c.out.heads) == 0 || c.out.heads[0] == s)
}

// awaitRoom blocks until the stream may append a header. It fails if the stream has ended. The caller appends the
// header before it releases the lock. The lock is held, and is released while it waits.
func (s *stream) awaitRoom() error {
	c := s.conn
	for queued := false; ; {
		err := cmp.Or(s.err, c.err)
		if err == nil && !c.takesHead(s) {
			if !c.out.writing && len(c.out.pending) > 0 {
				c.flush()
				continue
			}
			if !queued {
				queued = true
				c.out.heads = append(c.out.heads, s)
			}
			s.sendable.Wait()
			continue
		}
		if queued {
			i := slices.Index(c.out.heads, s)
			c.out.heads = slices.Delete(c.out.heads, i, i+1)
			c.call()
		}
		return err
	}
}

// unqueue takes a stream out of the line, and lets the next one come. The lock is held.
func (c *conn) unqueue(s *stream) {
	if s.queued {
		s.queued = false
		i := slices.Index(c.out.line, s)
		c.out.line = slices.Delete(c.out.line, i, i+1)
		c.call()
	}
}

// call wakes the stream that has waited longest, if there is room. It wakes only one stream, however little the peer
// reads at once. The lock is held.
func (c *conn) call() {
	switch {
	case c.out.full():
	case len(c.out.heads) > 0:
		c.out.heads[0].sendable.Signal()
	case len(c.out.line) > 0 && c.window > 0:
		c.out.line[0].sendable.Signal()
	}
}

// write writes what is pending now. The lock is held, and is released meanwhile.
func (c *conn) write() {
	p := c.out.pending
	c.out.pending, c.out.urgent, c.out.most = nil, 0, max(c.out.most, len(p))
	c.call()
	c.watchWrite()
	c.mu.Unlock()
	err := c.writeAll(p)
	if cap(p) <= maxKept {
		buffers.Put(&p)
	}
	c.mu.Lock()
	if err != nil {
		c.failLocked(err)
	}
}

func (c *conn) writeAll(p []byte) error {
	defer c.out.began.Store(0)
	for len(p) > 0 {
		c.out.began.Store(time.Now().UnixNano())
		n, err := c.writeNet(p[:min(len(p), writeSize)])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// watchWrite ends the connection when the peer takes nothing. The timer is left alone while there is traffic. The lock is held.
func (c *conn) watchWrite() {
	if c.out.armed {
		return
	}
	c.out.armed = true
	if c.out.watch == nil {
		c.out.watch = time.AfterFunc(c.settings.WriteTimeout, c.lookAtWrite)
		return
	}
	c.out.watch.Reset(c.settings.WriteTimeout)
}

func (c *conn) lookAtWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.out.began.Load()
	switch left := c.settings.WriteTimeout - time.Since(time.Unix(0, began)); {
	case c.err != nil:
	case began == 0:
		c.out.armed = false
	case left > 0:
		c.out.watch.Reset(left)
	default:
		c.failLocked(errWriteStuck)
	}
}

// answer appends the answer to a control frame, which another goroutine writes. It fails if the connection has ended.
// The lock is held.
func (c *conn) answer(pending []byte) error {
	c.urge(pending)
	c.flushSoon()
	return c.err
}
