// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

const (
	// goAwayTimeout is how long a connection stays open after a GOAWAY, so that the peer can read
	// it.
	goAwayTimeout = time.Second
	// maxLingering is how many bytes are read from a peer after a GOAWAY. Later ones stay in the
	// network's buffers.
	maxLingering = 1 << 20
)

// conn is the common part of a client's connection and a server's: its beginning, its reader, and
// its end.
type conn struct {
	mux

	reader  reader
	begun   chan struct{} // closed when the peer's settings were received
	done    chan struct{} // closed when the reader has ended
	isEnded atomic.Bool   // the connection has an error; the reader reads it without the lock

	// The lock guards the following fields.
	liveness      liveness
	livenessTimer *time.Timer   // nil before the beginning
	isLeaving     bool          // one of the two sides has sent GOAWAY
	isEnding      bool          // the connection ends when no stream is left and everything is written
	lingered      chan struct{} // closed when a peer has had its time to read the reason of the end
}

func (c *conn) init(nc net.Conn, role role, settings Settings, budget *Budget) {
	c.settings = settings
	c.network.Conn, c.network.coalesced = nc, coalescedBelow(nc)
	c.network.heard.Store(time.Now().UnixNano())
	c.idle.L = &c.mu
	c.out.init(&c.mu, &c.idle, &c.network, c, settings.WriteTimeout)
	c.peer = peerSettings{window: initialConnectionWindow, streams: 100, headerBytes: maxConnectionWindow}
	c.credit.granted = maxConnectionWindow
	c.account.budget = budget
	c.streams, c.leftovers = map[uint32]*stream{}, map[uint32]*stream{}
	c.liveness = liveness{pingAfter: settings.PingAfter, pingTimeout: settings.PingTimeout}
	c.begun, c.done = make(chan struct{}), make(chan struct{})
	c.reader.init(&c.mux, role)
}

// start announces this side and begins to check that the peer is alive.
func (c *conn) start(opening string, settings ...http2.Setting) {
	hasJoined := c.account.budget.join(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.err != nil {
		return // it was closed before it began
	}
	b := append(c.out.buffer(), opening...)
	b = appendSettings(b, append(settings,
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.settings.Windows.Initial)},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: uint32(c.settings.FrameSize)},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(c.settings.MaxHeaderBytes)})...)
	c.out.pending = appendWindowUpdate(b, 0, maxConnectionWindow-initialConnectionWindow)
	if !hasJoined {
		c.endLocked(http2.ErrCodeEnhanceYourCalm, ErrBusy)
		return
	}
	c.livenessTimer = time.AfterFunc(c.liveness.pingAfter, c.checkLiveness)
	c.roundTrip.begin(time.Now()) // the peer acknowledges the settings
	c.out.flushSoonLocked()
}

// run reads until the connection has ended. If another goroutine reads on instead, run returns the
// request that is left to this one. The goroutine that finds the end does the last work: it wakes
// the streams that have received something, reads on while the connection lingers, and leaves the
// budget, where a connection counts until it is closed.
func (c *conn) run() job {
	x, err := c.readFrames()
	if x != nil {
		return x
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errLost // it must not look like the end of a body
	}
	c.mu.Lock()
	if code, ok := errors.AsType[http2.ConnectionError](err); ok {
		c.endLocked(http2.ErrCode(code), err)
	}
	c.failLocked(err)
	lingered := c.lingered
	c.mu.Unlock()
	c.wake()
	c.reader.dropBlock()
	if lingered != nil {
		// Closing the connection with unread bytes would reset it, and the peer would lose the
		// reason. So what it still sends is discarded, until one side closes the connection.
		if _, err := io.CopyN(io.Discard, c.reader.in, maxLingering); err == nil {
			<-lingered
		}
	}
	_ = c.network.close()
	c.account.budget.leave(c)
	close(c.done)
	return nil
}

// readFrames reads frames until the connection fails or another goroutine reads on. A peer that is
// wrong about one stream loses that stream. Everything else that it gets wrong ends the connection,
// since the two sides would differ about windows or HPACK's table from then on.
func (c *conn) readFrames() (job, error) {
	for {
		if c.isEnded.Load() {
			return nil, errClosed
		}
		f, err := c.reader.nextFrame()
		if err != nil {
			return nil, err
		}
		if !c.reader.hasBegun && (f.kind != http2.FrameSettings || f.flags.Has(http2.FlagSettingsAck)) {
			return nil, http2.ConnectionError(http2.ErrCodeProtocol) // RFC 9113, 3.4
		}
		err = c.readFrame(f)
		if reset, ok := errors.AsType[http2.StreamError](err); ok {
			err = c.reader.refuse(reset)
		}
		if err != nil {
			return nil, err
		}
		if !c.reader.hasBegun {
			c.reader.hasBegun = true
			close(c.begun)
		}
		if x := c.reader.role.handOver(); x != nil {
			return x, nil
		}
	}
}

// readFrame handles a frame whose head was read. It must read the whole frame, unless it fails for
// the connection.
func (c *conn) readFrame(f frame) error {
	r := &c.reader
	if id := r.decoder.id; id != 0 && (f.kind != http2.FrameContinuation || f.id != id) {
		return http2.ConnectionError(http2.ErrCodeProtocol) // nothing may come in the middle of a header
	}
	if f.kind > http2.FrameContinuation { // unknown frames are ignored (RFC 9113, 5.5)
		return r.skip(f.length)
	}
	if err := f.validate(); err != nil {
		return err
	}
	switch f.kind {
	case http2.FrameData:
		return r.readData(f)
	case http2.FrameHeaders:
		return r.readHeaders(f)
	case http2.FrameContinuation:
		return r.readContinuation(f)
	default:
		return r.readControl(f)
	}
}

// fail ends the connection and all its streams, and closes it at once. Only the first reason is
// recorded.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

// failLocked implements [ender].
func (c *conn) failLocked(err error) {
	if c.out.err == nil {
		c.stopLocked(err)
		go func() { _ = c.network.close() }() // closing TLS may wait for a peer that is gone
	}
}

// endLocked implements [ender]. It ends the connection because of what the peer did. It sends a
// GOAWAY and closes the connection a second later. So the peer can read the reason, and a repeated
// attack has to wait each time.
func (c *conn) endLocked(code http2.ErrCode, err error) {
	if c.out.err != nil {
		return
	}
	c.stopLocked(err)
	c.lingered = make(chan struct{})
	time.AfterFunc(goAwayTimeout, func() {
		close(c.lingered)
		_ = c.network.close()
	})
	last := c.last
	if !c.isServer {
		last = 0 // servers do not begin streams
	}
	c.out.goAwayLocked(last, code)
}

// stopLocked ends the connection for all but the goroutine that reads, and the one that writes:
// both notice when the network's connection is closed.
func (c *conn) stopLocked(err error) {
	c.isEnded.Store(true)
	if c.livenessTimer != nil {
		c.livenessTimer.Stop()
	}
	c.mux.stopLocked(err)
}

// checkLiveness sends a PING after PingAfter of silence, and closes the connection if the peer is
// then silent for PingTimeout, or has not begun. The timer runs once for each PingAfter, not for
// each frame: the network records when it was heard, and checkLiveness looks there.
func (c *conn) checkLiveness() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.err != nil {
		return
	}
	select {
	case <-c.begun:
	default:
		c.failLocked(errNoPreface)
		return
	}
	shouldPing, next := c.liveness.check(time.Now(), c.LastHeard())
	if next == 0 {
		c.failLocked(errSilent)
		return
	}
	if shouldPing {
		c.out.urgeLocked(appendPing(c.out.buffer(), pingAlive))
		c.out.flushSoonLocked()
	}
	c.livenessTimer.Reset(next)
}

// goAwayLocked announces that later streams than the last one do not count. The caller flushes.
func (c *conn) goAwayLocked(last uint32) {
	c.isLeaving = true
	c.out.urgeLocked(appendGoAway(c.out.buffer(), last, http2.ErrCodeNo))
}

// closeWhenIdle closes an ending connection when no stream is left and everything is written. The
// peer has the time to close it first.
func (c *conn) closeWhenIdle(after time.Duration) {
	c.mu.Lock()
	c.awaitLocked(context.Background(), func() bool { return len(c.streams) == 0 && !c.out.isWriting && len(c.out.pending) == 0 })
	c.mu.Unlock()
	select {
	case <-c.done:
	case <-time.After(after):
	}
	c.fail(errClosed)
}

// awaitLocked blocks until a condition of the streams or the output holds, or ctx or the connection
// has ended. It releases the lock while it waits.
func (c *conn) awaitLocked(ctx context.Context, cond func() bool) {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	})()
	for c.out.err == nil && ctx.Err() == nil && !cond() {
		c.idle.Wait()
	}
}

// LastHeard returns when a byte last came from the peer.
func (c *conn) LastHeard() time.Time { return time.Unix(0, c.network.heard.Load()) }

// Done is closed when the connection has ended.
func (c *conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, nil before.
func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.err
}

// Close ends the connection at once.
func (c *conn) Close() error {
	c.fail(errClosed)
	if err := c.network.close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
