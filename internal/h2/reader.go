// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"golang.org/x/net/http2"
)

// read takes frames until the connection fails, or until another goroutine does: then it returns the request that is left to this one.
func (c *conn) read() (*exchange, error) {
	for {
		if c.over.Load() {
			return nil, errClosed
		}
		f, err := c.next()
		if err != nil {
			return nil, err
		}
		first := !c.opened
		if first && (f.kind != http2.FrameSettings || f.flags.Has(http2.FlagSettingsAck)) {
			return nil, http2.ConnectionError(http2.ErrCodeProtocol) // RFC 9113, 3.4
		}
		if c.decoding.stream != 0 && (f.kind != http2.FrameContinuation || f.stream != c.decoding.stream) {
			return nil, http2.ConnectionError(http2.ErrCodeProtocol)
		}
		err = c.take(f)
		var stream http2.StreamError
		if errors.As(err, &stream) {
			err = c.refuse(stream)
		}
		if err != nil {
			return nil, err
		}
		if first {
			c.opened = true
			close(c.greeted)
		}
		if x := c.side.relieved(); x != nil {
			return x, nil
		}
	}
}

// next reads the head of a frame.
func (c *conn) next() (frame, error) {
	p, err := c.peek(frameHeadLen)
	if err != nil {
		return frame{}, err
	}
	f := parseFrame(p)
	if f.length > c.settings.FrameSize {
		return frame{}, http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	return f, nil
}

// peek reads n bytes, at most [readBuffer], which are valid until the next read. Before it blocks, it wakes the streams
// for which something has arrived.
func (c *conn) peek(n int) ([]byte, error) {
	if c.in.Buffered() < n {
		c.wake()
	}
	p, err := c.in.Peek(n)
	if err != nil {
		return nil, err
	}
	_, err = c.in.Discard(n)
	return p, err
}

// wake wakes those for whom something has come.
func (c *conn) wake() {
	if len(c.wakes) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.wakes {
		s.wake()
		c.wakes[i] = nil
	}
	c.wakes = c.wakes[:0]
}

// later has a stream woken when everything is taken that has come along. The lock is held.
func (c *conn) later(s *stream) {
	if !s.woken {
		s.woken = true
		c.wakes = append(c.wakes, s)
	}
}

func (c *conn) take(f frame) error {
	if f.kind == http2.FrameData {
		return c.takeData(f)
	}
	if f.kind > http2.FrameContinuation { // RFC 9113, 5.5: what is not known is ignored
		return c.skip(f.length)
	}
	if err := c.fits(f); err != nil {
		return err
	}
	switch f.kind {
	case http2.FrameHeaders:
		return c.takeHeaders(f)
	case http2.FrameContinuation:
		if f.stream == 0 || c.decoding.stream == 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return c.takeBlock(f, f.length, 0)
	default:
		return c.takeControl(f)
	}
}

// takeControl handles a frame that contains neither data nor a header. It reads at most maxControl bytes of the frame
// before it checks it.
func (c *conn) takeControl(f frame) error {
	p, err := c.peek(min(f.length, maxControl))
	if err != nil {
		return err
	}
	switch f.kind {
	case http2.FrameSettings:
		return c.takeSettings(f, p)
	case http2.FrameWindowUpdate:
		return c.takeWindowUpdate(f, p)
	case http2.FrameRSTStream:
		return c.takeReset(f, p)
	case http2.FramePing:
		return c.takePing(f, p)
	case http2.FrameGoAway:
		if f.stream != 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		if f.length < 2*wordLen {
			return http2.ConnectionError(http2.ErrCodeFrameSize)
		}
		last := binary.BigEndian.Uint32(p) &^ reservedBit
		if err := c.skip(f.length - len(p)); err != nil { // the debug text of the GOAWAY
			return err
		}
		c.side.goAway(last)
	case http2.FramePriority:
		if f.stream == 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		if err := c.skip(f.length - len(p)); err != nil {
			return err
		}
		if f.length != priorityLen {
			return http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeFrameSize}
		}
	case http2.FramePushPromise:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	default: // the rest has been dealt with
	}
	return nil
}

// fits returns an error for a frame that is too long to read. Only data frames may have the full frame size.
func (c *conn) fits(f frame) error {
	switch {
	case f.kind == http2.FrameHeaders:
		return c.decoding.fits(f.length)
	case f.kind == http2.FrameContinuation:
		return c.decoding.fits(c.decoding.bytes + f.length)
	case f.length > minFrameSize:
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	return nil
}

func (c *conn) takeHeaders(f frame) error {
	if f.stream == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	length, padding := f.length, 0
	if f.flags.Has(http2.FlagHeadersPadded) {
		if length == 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		p, err := c.peek(1)
		if err != nil {
			return err
		}
		padding = int(p[0])
		if length -= 1 + padding; length < 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
	}
	if f.flags.Has(http2.FlagHeadersPriority) {
		if length -= priorityLen; length < 0 {
			return http2.ConnectionError(http2.ErrCodeFrameSize)
		}
		if err := c.skip(priorityLen); err != nil {
			return err
		}
	}
	c.decoding.open(f.stream, f.flags.Has(http2.FlagHeadersEndStream))
	return c.takeBlock(f, length, padding)
}

// takeBlock reads a piece of a header and the padding behind it.
func (c *conn) takeBlock(f frame, length, padding int) error {
	d := &c.decoding
	if err := d.count(length); err != nil {
		return err
	}
	last := f.flags.Has(http2.FlagHeadersEndHeaders)
	if last && d.block == nil && length <= readBuffer {
		p, err := c.peek(length)
		if err != nil {
			return err
		}
		if err := d.decode(p); err != nil {
			return err
		}
	} else if err := c.gather(length); err != nil {
		return err
	}
	if err := c.skip(padding); err != nil || !last {
		return err
	}
	if d.block != nil {
		err := d.decode(d.block)
		c.scatter()
		if err != nil {
			return err
		}
	}
	defer d.release()
	return c.dispatch(f)
}

// gather reads a piece of a header that is decoded later. It allocates memory only as bytes arrive.
func (c *conn) gather(bytes int) error {
	d := &c.decoding
	for bytes > 0 {
		n, from := min(bytes, blockStep), len(d.block)
		if !c.holdHeader(n) {
			return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm) // later headers cannot be decoded without this one
		}
		d.block = slices.Grow(d.block, n)[:from+n]
		if c.in.Buffered() < n {
			c.wake()
		}
		if read, err := io.ReadFull(c.in, d.block[from:]); err != nil {
			d.block = d.block[:from+read]
			c.releaseHeader(n - read)
			return err
		}
		bytes -= n
	}
	return nil
}

// scatter drops the gathered bytes.
func (c *conn) scatter() {
	c.releaseHeader(len(c.decoding.block))
	c.decoding.block = nil
}

// dispatch passes a header to its stream.
func (c *conn) dispatch(f frame) error {
	c.mu.Lock()
	s := c.streams[f.stream]
	ended := s != nil && s.got
	c.mu.Unlock()
	switch {
	case s == nil:
		return c.side.begin(f.stream, &c.decoding, c.decoding.end)
	case ended:
		return http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeStreamClosed}
	}
	return c.side.header(s, &c.decoding, c.decoding.end)
}

// A change of settings concerns all streams, and costs the peer a few bytes: it may make so many at once, and so many a second.
const (
	maxSettings      = 100                      // settings in one frame
	maxControl       = maxSettings * settingLen // bytes read of a frame without data or header
	changesAtOnce    = 100
	changesPerSecond = 10
)

func (c *conn) takeSettings(f frame, p []byte) error {
	switch {
	case f.stream != 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case f.flags.Has(http2.FlagSettingsAck) && f.length != 0, f.length%settingLen != 0:
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	case f.flags.Has(http2.FlagSettingsAck):
		c.measured()
		return nil
	}
	if f.length > maxSettings*settingLen || !c.changes.Allow() {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	window := c.peerWindow
	for ; len(p) > 0; p = p[settingLen:] {
		s := http2.Setting{ID: http2.SettingID(binary.BigEndian.Uint16(p)), Val: binary.BigEndian.Uint32(p[2:])}
		if err := s.Valid(); err != nil {
			return err
		}
		if s.ID == http2.SettingInitialWindowSize {
			window = int(s.Val)
			continue
		}
		c.heed(s)
	}
	if err := c.resize(window); err != nil {
		return err
	}
	return c.answer(appendSettingsAck(c.out.buffer()))
}

// resize has the peer take more or less on each stream. The lock is held.
func (c *conn) resize(window int) error {
	more := window - c.peerWindow
	c.peerWindow = window
	if more == 0 {
		return nil
	}
	for _, s := range c.streams {
		if !s.widen(more) {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	}
	return nil
}

// heed does what the peer wants. The lock is held.
func (c *conn) heed(s http2.Setting) {
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.enc.hpack.SetMaxDynamicTableSize(min(s.Val, headerTable))
	case http2.SettingMaxConcurrentStreams:
		c.peerStreams = int(min(s.Val, maxConnectionWindow))
	case http2.SettingMaxFrameSize:
		c.peerFrame = int(s.Val)
	case http2.SettingMaxHeaderListSize:
		c.peerHeader = int(min(s.Val, maxConnectionWindow))
	default:
	}
}

func (c *conn) takeWindowUpdate(f frame, p []byte) error {
	if f.length != wordLen {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	increment := int(binary.BigEndian.Uint32(p) &^ reservedBit)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.stream == 0 {
		if increment == 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		if c.window += increment; c.window > maxConnectionWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.call()
		return nil
	}
	s := c.streams[f.stream]
	switch {
	case s == nil && c.isIdle(f.stream):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case s == nil:
		return nil // it has ended meanwhile
	case increment == 0:
		return http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeProtocol}
	}
	if !s.widen(increment) {
		return http2.StreamError{StreamID: f.stream, Code: http2.ErrCodeFlowControl}
	}
	return nil
}

// isIdle reports whether a stream has not been begun. The lock is held.
func (c *conn) isIdle(id uint32) bool { return id > c.last || id%2 == 0 }

func (c *conn) takeReset(f frame, p []byte) error {
	if f.stream == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if f.length != wordLen {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle(f.stream) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := c.streams[f.stream]; s != nil {
		code := http2.ErrCode(binary.BigEndian.Uint32(p))
		s.peerReset(http2.StreamError{StreamID: f.stream, Code: code, Cause: errFromPeer})
	}
	return nil
}

func (c *conn) takePing(f frame, p []byte) error {
	switch {
	case f.stream != 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case f.length != pingLen:
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	case f.flags.Has(http2.FlagPingAck):
		if p[pingLen-1] == pingRoundTrip {
			c.measured()
		} else {
			c.side.pong(p[pingLen-1])
		}
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer(appendPing(c.out.buffer(), http2.FlagPingAck, p))
}

// refuse resets a stream for what the peer did on it.
func (c *conn) refuse(err http2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[err.StreamID]; s != nil {
		s.end(err)
	}
	return c.answer(appendReset(c.out.buffer(), err.StreamID, err.Code))
}
