// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
)

// conn is what both sides of a connection have in common.
//
// One goroutine at a time reads. It does not write, so that it cannot wait for a peer that waits for it: what it has to say is written by
// others, or by a goroutine for the purpose. Everybody else writes for himself.
type conn struct {
	net      net.Conn
	below    *coalesced // under the network's TLS; nil: nothing is coalesced
	settings Settings
	budget   *Budget
	side     side
	greeted  chan struct{} // closed when the peer has said how much it takes
	done     chan struct{} // closed when the reader has ended
	over     atomic.Bool   // err is set
	heard    atomic.Int64  // when something last came, in nanoseconds

	// What follows is the reader's.
	in       *bufio.Reader
	opened   bool // the peer's first frame was taken
	decoding decoding
	wakes    []*stream     // those to be woken before the reader waits
	changes  *rate.Limiter // of settings

	mu sync.Mutex // guards what follows, and the fields of streams
	// err is why the connection has ended.
	err error
	// lingering means that the connection has ended, and the peer may still read why. When that is over, lingered is
	// closed, and the connection too.
	lingering bool
	lingered  chan struct{}

	streams map[uint32]*stream
	last    uint32 // the largest id of a stream so far

	out output
	enc encoding

	window      int // what may be sent on all streams together
	peerWindow  int // what may be sent on a stream at first
	peerFrame   int // how large the peer takes frames
	peerStreams int // how many streams the peer takes
	peerHeader  int // how large the peer takes headers
	granted     int // what the peer may send on all streams together
	owed        int // what it has sent since it was granted some last
	unread      int // what all streams hold that nobody has read
	headers     int // bytes of headers reserved from the budget
	// rest are streams that have ended, and of which something is unread.
	rest map[*stream]struct{}

	leaving bool      // one of the two sides has said that it goes: nothing new is begun
	ending  bool      // the connection ends when nothing is left to do
	idle    sync.Cond // that there is no stream
	pulse   *time.Timer
	pinged  time.Time // when the peer was last asked whether it is alive

	roundTrip time.Duration // the shortest that was measured; zero: none was
	measuring bool
	asked     time.Time // when it was last measured, or is
}

// side is what a client does otherwise than a server. Its methods are called by the reader without the lock.
type side interface {
	// begin takes the header of a stream that the connection does not know.
	begin(id uint32, header *decoding, end bool) error
	// header takes the header of one that it knows.
	header(s *stream, header *decoding, end bool) error
	// relieved returns the request that the reader's goroutine is to answer, since another one reads on. Nil: it reads on itself.
	relieved() *exchange
	// late says what to do about data for a stream that has ended. The lock is held.
	late(id uint32) error
	// goAway takes the last stream that the peer has looked at.
	goAway(last uint32)
	// pong takes the answer to a PING with this number.
	pong(number byte)
	// lastSeen is the last stream of the peer's that was begun. The lock is held.
	lastSeen() uint32
	// left is told that a connection that is ending has nothing left to do. The lock is held.
	left()
}

func newConn(nc net.Conn, settings Settings, budget *Budget) *conn {
	c := &conn{
		net: nc, below: coalescedBelow(nc), settings: settings, budget: budget,
		greeted: make(chan struct{}), done: make(chan struct{}), streams: map[uint32]*stream{}, rest: map[*stream]struct{}{},
		window: initialConnectionWindow, peerWindow: initialConnectionWindow, peerFrame: minFrameSize, peerStreams: 100,
		peerHeader: maxConnectionWindow, granted: maxConnectionWindow, changes: rate.NewLimiter(changesPerSecond, changesAtOnce),
	}
	c.in = bufio.NewReaderSize(heard{c}, readBuffer)
	c.decoding.init(settings.MaxHeaderBytes)
	c.enc.init()
	c.idle.L = &c.mu
	c.heard.Store(time.Now().UnixNano())
	return c
}

// readBuffer is small, because every connection has one. Bytes of bodies pass it by.
const readBuffer = 4 << 10

// heard reads from the connection, and notes when something came.
type heard struct{ c *conn }

// Read implements io.Reader.
func (h heard) Read(p []byte) (int, error) {
	n, err := h.c.net.Read(p)
	if n > 0 {
		h.c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// start announces this side and begins to look after the peer.
func (c *conn) start(opening []byte, settings ...http2.Setting) {
	joined := c.budget.join(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return // it was closed before it began
	}
	settings = append(settings,
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.settings.Windows.Initial)},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: uint32(c.settings.FrameSize)},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(c.settings.MaxHeaderBytes)})
	b := append(c.out.buffer(), opening...)
	b = appendSettings(b, settings...)
	c.out.pending = appendWindowUpdate(b, 0, maxConnectionWindow-initialConnectionWindow)
	if !joined {
		c.endLocked(http2.ErrCodeEnhanceYourCalm, ErrBusy)
		return
	}
	c.pulse = time.AfterFunc(c.settings.PingAfter, c.feel)
	c.measuring, c.asked = true, time.Now()
	c.flushSoon()
}

// run reads until the connection ends. It returns the request that is left to its goroutine when another one reads on instead.
func (c *conn) run() *exchange {
	x, err := c.read()
	if x != nil {
		return x
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errLost // so that nobody takes it for the end of a body
	}
	var code http2.ConnectionError
	if errors.As(err, &code) {
		c.end(http2.ErrCode(code), err)
	}
	c.fail(err)
	c.wake()
	c.scatter()
	c.linger()
	_ = c.closeNet()
	c.budget.leave(c)
	close(c.done)
	return nil
}

// fail ends the connection and all its streams, and closes it. Only the first reason is recorded.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *conn) failLocked(err error) {
	if c.err == nil {
		c.stop(err)
		go func() { _ = c.closeNet() }() // closing TLS may wait for a peer that is gone
	}
}

// goAwayTimeout is how long a connection stays open after a GOAWAY, so that the peer can read it.
const goAwayTimeout = time.Second

// end ends the connection because of what the peer did. It sends a GOAWAY and closes the connection a second later. So
// the peer can read the reason, and a repeated attack has to wait each time.
func (c *conn) end(code http2.ErrCode, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(code, err)
}

func (c *conn) endLocked(code http2.ErrCode, err error) {
	if c.err != nil {
		return
	}
	c.stop(err)
	c.lingering, c.lingered = true, make(chan struct{})
	time.AfterFunc(goAwayTimeout, func() {
		close(c.lingered)
		_ = c.closeNet()
	})
	c.out.pending = appendGoAway(c.out.buffer(), c.side.lastSeen(), code)
	if !c.out.writing {
		c.out.writing = true
		go c.drain()
	}
}

// maxLingering is how many bytes are read from a peer after a GOAWAY. Anything beyond stays in the network's buffers.
const maxLingering = 1 << 20

// linger discards what a peer sends after the connection has ended. Closing the connection with unread data would reset
// it, and the peer would lose the reason. linger returns when either side has closed the connection.
func (c *conn) linger() {
	c.mu.Lock()
	lingering := c.lingering
	c.mu.Unlock()
	if !lingering {
		return
	}
	if _, err := io.CopyN(io.Discard, c.in, maxLingering); err == nil {
		<-c.lingered
	}
}

// stop ends all streams. The lock is held.
func (c *conn) stop(err error) {
	c.err = err
	c.over.Store(true)
	if c.pulse != nil { // nil: the connection has not begun
		c.pulse.Stop()
	}
	c.out.stop()
	c.budget.add(-c.unread) // what was not read is still read, but its memory is not asked for any more
	c.unread = 0
	for _, s := range c.streams {
		s.end(err)
	}
	clear(c.rest)
	c.idle.Broadcast()
}

// LastHeard is when the last byte came.
func (c *conn) LastHeard() time.Time { return time.Unix(0, c.heard.Load()) }

// Done is closed when the connection has ended.
func (c *conn) Done() <-chan struct{} { return c.done }

// Err is why the connection has ended, nil before.
func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Unread is how many bytes of all streams were received and not read.
func (c *conn) Unread() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unread
}

// Close ends the connection at once.
func (c *conn) Close() error {
	c.fail(errClosed)
	err := c.closeNet()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// feel looks after the peer: it asks after a silence, and ends the connection when that goes on.
func (c *conn) feel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	last := c.LastHeard()
	silence := time.Since(last)
	switch {
	case !c.hasBegun():
		c.failLocked(errNoPreface)
	case silence < c.settings.PingAfter:
		c.pulse.Reset(c.settings.PingAfter - silence)
	case !c.pinged.After(last):
		c.pinged = time.Now()
		c.urge(appendPing(c.out.buffer(), 0, pingNumber(pingAlive)))
		c.flushSoon()
		c.pulse.Reset(c.settings.PingTimeout)
	case time.Since(c.pinged) < c.settings.PingTimeout:
		c.pulse.Reset(c.settings.PingTimeout - time.Since(c.pinged))
	default:
		c.failLocked(errSilent)
	}
}

// hasBegun reports whether the peer's first frame was received.
func (c *conn) hasBegun() bool {
	select {
	case <-c.greeted:
		return true
	default:
		return false
	}
}

// What PINGs ask.
const (
	pingAlive byte = iota + 1
	pingGoAway
	pingRoundTrip
)

func pingNumber(number byte) []byte { return []byte{'l', 'e', 'a', 't', 0, 0, 0, number} }

// add takes a stream in. The lock is held.
func (c *conn) add(s *stream, id uint32) {
	s.id = id
	c.last = id
	c.streams[id] = s
}

// remove forgets a stream that has ended in both directions. The lock is held.
func (c *conn) remove(s *stream) {
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	s.owner.removed()
	if s.inbox.size > 0 && !s.closed {
		c.rest[s] = struct{}{}
	}
	if len(c.streams) == 0 {
		c.idle.Broadcast()
		c.settle()
	}
}

// settle ends a connection that has nothing left to do. The lock is held.
func (c *conn) settle() {
	if c.ending && len(c.streams) == 0 && !c.out.writing && len(c.out.pending) == 0 && c.err == nil {
		c.side.left()
	}
}

// await waits until something about the connection's rest is so, at most as long as ctx and the connection. The lock is held, and is
// released meanwhile.
func (c *conn) await(ctx context.Context, so func() bool) {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	})()
	for c.err == nil && ctx.Err() == nil && !so() {
		c.idle.Wait()
	}
}

// holdHeader reserves bytes of headers from the budget. It reports false if the connection, or all connections
// together, would hold too many.
func (c *conn) holdHeader(bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holdHeaderLocked(bytes)
}

func (c *conn) holdHeaderLocked(bytes int) bool {
	if c.headers+bytes > c.budget.share || !c.budget.headers.take(int64(bytes)) {
		return false
	}
	c.headers += bytes
	return true
}

// releaseHeader returns reserved bytes to the budget.
func (c *conn) releaseHeader(bytes int) {
	if bytes > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.releaseHeaderLocked(bytes)
	}
}

func (c *conn) releaseHeaderLocked(bytes int) {
	c.headers -= bytes
	c.budget.headers.release(int64(bytes))
}

// count adds to what is unread. The lock is held.
func (c *conn) count(bytes int) {
	if c.err != nil {
		return
	}
	c.unread += bytes
	c.budget.add(bytes)
}
