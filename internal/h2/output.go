// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending is beyond what data waits for the connection to take some. Everything else waits behind it.
	maxPending = 128 << 10
	// maxAnswers bounds the answers to control frames of a peer that does not read them (CVE-2019-9512, -9515).
	maxAnswers = 64 << 10
	// writeSize is how much is written at once. The peer has the write timeout for each.
	writeSize = 64 << 10
)

// output is what is to be written. Whoever has something to say appends it, and writes everything that is pending unless somebody else
// is at it: then that one's successor does. So what several say at the same time goes out in one write, and nobody writes more than
// what was there when he came. Streams with more data than there is room for take turns, a frame each. The connection's lock guards it.
type output struct {
	pending []byte
	writing bool
	answers int       // bytes of pending that answer control frames
	quiet   sync.Cond // that nobody is writing
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
	o.quiet.Broadcast()
}

// flush writes what is pending, unless somebody is at it. The lock is held, and is released while it writes.
func (c *conn) flush() {
	if c.out.writing || len(c.out.pending) == 0 || c.err != nil {
		return
	}
	c.out.writing = true
	c.write()
	if len(c.out.pending) > 0 && c.err == nil {
		go c.drain()
		return
	}
	c.written()
}

// written takes note that everything is written. The lock is held.
func (c *conn) written() {
	c.out.writing = false
	c.out.quiet.Broadcast()
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
	for len(c.out.pending) > 0 && c.err == nil {
		c.write()
	}
	c.written()
}

// takes reports whether a stream may append data: there is room, the peer takes some, and nobody has waited for longer. The lock is held.
func (c *conn) takes(s *stream) bool {
	return !c.out.full() && c.window > 0 && (len(c.out.line) == 0 || c.out.line[0] == s)
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

// call wakes the first who waits, if there is room. However little a peer takes at once, it wakes one and not all. The lock is held.
func (c *conn) call() {
	if len(c.out.line) > 0 && !c.out.full() && c.window > 0 {
		c.out.line[0].sendable.Signal()
	}
}

// write writes what is pending now. The lock is held, and is released meanwhile.
func (c *conn) write() {
	p := c.out.pending
	c.out.pending, c.out.answers = nil, 0
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

// answer appends what answers a control frame, for somebody else to write. The lock is held.
func (c *conn) answer(add func([]byte) []byte) error {
	before := len(c.out.buffer())
	c.out.pending = add(c.out.pending)
	if c.out.answers += len(c.out.pending) - before; c.out.answers > maxAnswers {
		return errFlood
	}
	c.flushSoon()
	return nil
}
