// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// stream is one request and its answer: one direction that one goroutine writes to, and one that one goroutine reads from. The
// connection's lock guards all fields.
type stream struct {
	conn  *conn
	owner owner
	id    uint32
	// err is why the stream has ended before its end. What has come before can still be read.
	err error

	// What is sent.
	window   int // what the peer still takes
	sent     bool
	sendable sync.Cond // signals that the window has grown, that it is the stream's turn, or that sending has ended; one goroutine waits
	queued   bool      // somebody waits for the connection

	// What is received.
	inbox    inbox
	in       window
	ahead    int   // how much of the inbox the peer was granted anew
	got      bool  // the peer has sent its last byte
	closed   bool  // nobody reads any further
	reading  bool  // somebody waits for bytes
	lastRead int64 // when somebody was last here, in nanoseconds
	readable sync.Cond
	woken    bool  // it is on the reader's list
	declared int64 // Content-Length; -1: none
	received int64
	trailer  http.Header
	headers  int   // bytes of headers reserved from the budget
	expired  error // the deadline for reading has passed
}

// owner is told of what is not about bytes. The lock is held.
type owner interface {
	// came is called when something has come, together with what came along.
	came()
	// ended is called when the stream has ended before its end.
	ended(err error)
	// removed is called when the connection removes the stream.
	removed()
	// satisfied reports whether this side has all that it wants of the peer.
	satisfied() bool
	// unwanted is called when the peer wants no more of what is sent.
	unwanted()
	// expects reports whether so much data may come now.
	expects(bytes int64) bool
	// short is called when less data has come than was declared.
	short() error
}

// init makes a stream of a connection. The lock is held.
func (s *stream) init(c *conn, o owner) {
	s.conn, s.owner, s.declared = c, o, -1
	s.sendable.L, s.readable.L = &c.mu, &c.mu
	s.window = c.peerWindow
	s.in = window{size: c.settings.Windows.Initial, granted: c.settings.Windows.Initial}
	s.lastRead = c.heard.Load()
}

// hold reserves room for one of the stream's headers from the budget, and reports whether there was enough. The lock is
// held.
func (s *stream) hold(d *decoding) bool {
	if !s.conn.holdHeaderLocked(d.held()) {
		return false
	}
	s.headers += d.held()
	return true
}

// release returns to the budget what the stream has reserved. The lock is held.
func (s *stream) release() {
	s.conn.releaseHeaderLocked(s.headers)
	s.conn.budget.streams.release(1)
	s.headers = 0
}

func (s *stream) wake() {
	s.woken = false
	s.readable.Signal()
	s.owner.came()
}

// end ends both directions for a reason that is none of the protocol's own ends.
func (s *stream) end(err error) {
	if s.err == nil {
		s.err = err
	}
	s.in.close(s.conn)
	s.conn.remove(s)
	s.sendable.Broadcast()
	s.readable.Broadcast()
	s.owner.ended(s.err)
}

// reset ends both directions and tells the peer so, unless they have ended. What has come is dropped. It is for the caller to flush.
func (s *stream) reset(code http2.ErrCode, err error) {
	s.drop()
	if s.conn.streams[s.id] != s {
		if s.err == nil {
			s.err = err // for whoever reads what has come before
		}
		return
	}
	if s.conn.err == nil {
		s.conn.urge(appendReset(s.conn.out.buffer(), s.id, code))
	}
	s.end(err)
}

// drop forgets what has come, and what will.
func (s *stream) drop() {
	if !s.closed {
		s.closed = true
		s.conn.count(-s.inbox.drop())
		delete(s.conn.rest, s)
		s.readable.Broadcast()
	}
}

// peerReset ends the stream because the peer did. A server that has answered may only want no more of the request.
func (s *stream) peerReset(err http2.StreamError) {
	if !s.owner.satisfied() {
		s.end(err)
		return
	}
	s.finishSending()
	s.sendable.Broadcast()
	s.owner.unwanted()
}

// finishSending takes note that nothing more is sent.
func (s *stream) finishSending() {
	s.sent = true
	if s.got {
		s.conn.remove(s)
	}
}

// finishReceiving takes note that nothing more comes.
func (s *stream) finishReceiving() {
	s.got = true
	s.in.close(s.conn)
	if s.sent {
		s.conn.remove(s)
	}
	s.conn.later(s)
}

// cut ends a stream for want of memory. It reports whether there was something to end.
func (s *stream) cut() bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed || s.inbox.size == 0 {
		return false
	}
	if s.err == nil {
		s.err = ErrTooSlow
	}
	s.reset(http2.ErrCodeCancel, ErrTooSlow)
	c.flushSoon()
	return true
}

// read reads what has come, and waits where there is nothing.
func (s *stream) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var pieces [4][]byte
	front, err := s.front(pieces[:0], len(p))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, piece := range front {
		n += copy(p[n:], piece)
	}
	if err := s.consume(n); err != nil {
		return 0, err
	}
	return n, nil
}

// writeTo writes what comes to w until its end, from where it lies.
func (s *stream) writeTo(w io.Writer) (written int64, err error) {
	for {
		var pieces [4][]byte
		front, err := s.front(pieces[:0], len(pieces)*bulk)
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		for _, piece := range front {
			n, err := w.Write(piece)
			written += int64(n)
			if err := cmp.Or(err, s.consume(n)); err != nil {
				return written, err
			}
		}
	}
}

// front returns what is there first, as [inbox.front] does, and waits where there is nothing. It stays there until it is consumed, but the
// peer may send as much again from now on.
func (s *stream) front(to [][]byte, bytes int) ([][]byte, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.inbox.size == 0 {
		if err := s.readEnd(); err != nil {
			return nil, err
		}
		s.reading = true
		s.readable.Wait()
		s.reading = false
	}
	front := s.inbox.front(to, bytes)
	n := 0
	for _, piece := range front {
		n += len(piece)
	}
	if n > s.ahead {
		s.grant(n - s.ahead)
		s.ahead = n
	}
	c.flush()
	return front, nil
}

// consume takes off what was read. It fails when the rest is not to be read, and then what was read is not, either.
func (s *stream) consume(bytes int) error {
	now := time.Now().UnixNano()
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	s.lastRead = now
	if s.closed {
		return s.readEnd()
	}
	s.inbox.consume(bytes)
	s.ahead -= bytes
	c.count(-bytes)
	if s.inbox.size == 0 {
		delete(c.rest, s)
	}
	return nil
}

// grant lets the peer send as much again as was read. It is for the caller to flush.
func (s *stream) grant(bytes int) {
	if s.got || s.err != nil {
		return
	}
	if increment := s.in.read(bytes, s.conn); increment > 0 {
		s.conn.urge(appendWindowUpdate(s.conn.out.buffer(), s.id, increment))
	}
}

// readEnd is why there is nothing to read any more: io.EOF at the end. It is nil while something may come.
func (s *stream) readEnd() error {
	switch {
	case s.err != nil:
		return s.err
	case s.closed:
		return errBodyClosed
	case s.got:
		return io.EOF
	}
	return s.expired
}

// send sends data, as fast as the peer takes it, and its end. It returns how much was sent, or will be.
func (s *stream) send(p []byte, end bool) (int, error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	sent, err := s.enqueue(p, end)
	s.conn.flush()
	return sent, err
}

// enqueue is send without the flush. It releases the lock while it waits.
func (s *stream) enqueue(p []byte, end bool) (sent int, err error) {
	c := s.conn
	defer c.unqueue(s)
	for {
		switch {
		case s.err != nil:
			return sent, s.err
		case c.err != nil:
			return sent, c.err
		case s.sent:
			return sent, errAnswerOver
		case len(p) == 0 && !end:
			return sent, nil
		}
		n := min(len(p), max(s.window, 0), c.peerFrame, maxPending)
		if len(p) > 0 && (n == 0 || !c.takes(s)) {
			s.wait(n == 0)
			continue
		}
		n = min(n, max(c.window, 0))
		last := end && n == len(p)
		c.out.pending = appendData(c.out.buffer(), s.id, p[:n], last)
		s.window, c.window = s.window-n, c.window-n
		p, sent = p[n:], sent+n
		c.unqueue(s) // who has more stands behind those who wait
		if last {
			s.finishSending()
			return sent, nil
		}
	}
}

// widen lets more be sent, or less. It reports false when that is more than there can be.
func (s *stream) widen(by int) bool {
	before := s.window
	s.window += by
	if before <= 0 && s.window > 0 {
		s.sendable.Broadcast() // whoever waits for the connection would be woken for nothing
	}
	return s.window <= maxConnectionWindow
}

// wait waits until more may be sent: for the stream's window, or for the connection. What is pending goes first.
func (s *stream) wait(window bool) {
	c := s.conn
	switch {
	case !c.out.writing && len(c.out.pending) > 0:
		c.unqueue(s) // who writes does not keep others from adding to what goes out next
		c.flush()
	case window:
		c.unqueue(s)
		s.sendable.Wait()
	default:
		c.out.queue(s)
		s.sendable.Wait()
	}
}

// takeData takes a frame of data. Its bytes are read to where they are kept.
func (c *conn) takeData(f frame) error {
	body, padding, overhead := f.length, 0, 0
	if f.flags.Has(http2.FlagDataPadded) {
		if f.length == 0 {
			return http2.ConnectionError(http2.ErrCodeFrameSize)
		}
		p, err := c.peek(1)
		if err != nil {
			return err
		}
		padding, overhead = int(p[0]), 1+int(p[0])
		if body -= overhead; body < 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
	}
	s, err := c.expectData(f, int64(body))
	var stream http2.StreamError
	switch {
	case err == nil && s != nil:
		if body, err = c.fill(s, body); err != nil {
			return err
		}
	case err != nil && !errors.As(err, &stream):
		return err
	}
	if skipped := c.skip(body + padding); skipped != nil {
		return skipped
	}
	if s == nil || err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if overhead > 0 {
		s.grant(overhead)
		c.flushSoon()
	}
	if f.flags.Has(http2.FlagDataEndStream) {
		return s.endData()
	}
	return nil
}

// endData takes note of the last byte.
func (s *stream) endData() error {
	if s.declared >= 0 && s.received != s.declared {
		return s.owner.short()
	}
	s.finishReceiving()
	return nil
}

// expectData counts a frame and returns the stream that it is for, nil when nobody wants it any more.
func (c *conn) expectData(f frame, body int64) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.stream == 0 || c.isIdle(f.stream) {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if c.granted -= f.length; c.granted < 0 {
		return nil, http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	if c.owed += f.length; c.owed >= connectionCredit {
		c.urge(appendWindowUpdate(c.out.buffer(), 0, c.owed))
		c.granted, c.owed = c.granted+c.owed, 0
		c.flushSoon()
	}
	s := c.streams[f.stream]
	switch {
	case s == nil:
		return nil, c.side.late(f.stream)
	case s.got:
		return nil, http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeStreamClosed}
	case !s.owner.expects(body):
		return nil, http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeProtocol}
	case !s.in.take(f.length):
		return nil, http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeFlowControl}
	}
	if s.received += body; s.declared >= 0 && s.received > s.declared {
		return nil, http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeProtocol}
	}
	return s, nil
}

// fill reads data for a stream, and returns how much was not read because nobody wants it any more.
func (c *conn) fill(s *stream, bytes int) (left int, err error) {
	for bytes > 0 {
		chunk, p := c.reserve(s, bytes)
		if chunk == nil {
			break
		}
		if c.in.Buffered() < len(p) {
			c.wake()
		}
		if _, err := io.ReadFull(c.in, p); err != nil {
			return bytes, err
		}
		bytes -= len(p)
		c.commit(s, chunk, len(p))
	}
	return bytes, nil
}

// reserve returns where to put data for a stream, nil when nobody wants it any more.
func (c *conn) reserve(s *stream, bytes int) (*chunk, []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	return s.inbox.reserve(bytes)
}

func (c *conn) commit(s *stream, chunk *chunk, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.closed {
		s.inbox.commit(chunk, bytes)
		c.count(bytes)
		c.later(s)
	}
}

func (c *conn) skip(bytes int) error {
	if c.in.Buffered() < bytes {
		c.wake()
	}
	_, err := c.in.Discard(bytes)
	return err
}
