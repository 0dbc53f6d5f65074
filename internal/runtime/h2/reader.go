// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bufio"
	"io"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
)

// A change of settings concerns all streams, and costs the peer a few bytes. So the peer may make
// only so many at once, and so many a second.
const (
	maxSettings      = 100                      // settings in one frame
	maxControl       = maxSettings * settingLen // bytes read of a control frame
	changesAtOnce    = 100
	changesPerSecond = 10
)

// readBuffer is small, because every connection has one. Bytes of bodies bypass it.
const readBuffer = 4 << 10

// reader reads the frames of a connection. One goroutine at a time uses it, so that its fields need
// no lock. It never writes, because it would wait for a peer that waits for it: other goroutines
// write what it has to answer.
type reader struct {
	mux  *mux
	role role

	in          *bufio.Reader
	decoder     headerDecoder
	settingRate *rate.Limiter // how often the peer may change settings
	hasBegun    bool          // the peer's settings were received
}

// role holds the differences of a client and a server. The reader calls its methods without the
// lock.
type role interface {
	// openStream handles the header of a stream that is not in the table.
	openStream(id uint32, d *headerDecoder) error
	// continueStream handles a later header of a stream.
	continueStream(s *stream, d *headerDecoder) error
	// goAway handles a GOAWAY with the last stream that the peer has processed.
	goAway(last uint32)
	// pong handles the answer to a PING that asked this question.
	pong(question byte)
	// handOver returns the request that the reader's goroutine is to answer, while another one
	// reads on. It returns nil if this one reads on.
	handOver() job
}

// job is a request to answer.
type job interface{ run() }

func (r *reader) init(m *mux, role role) {
	r.mux, r.role = m, role
	r.in = bufio.NewReaderSize(&m.network, readBuffer)
	r.decoder.init(m.settings.MaxHeaderBytes)
	r.settingRate = rate.NewLimiter(changesPerSecond, changesAtOnce)
}

// nextFrame reads the head of a frame.
func (r *reader) nextFrame() (frame, error) {
	p, err := r.peek(frameHeadLen)
	if err != nil {
		return frame{}, err
	}
	f := parseFrame(p)
	if f.length > r.mux.settings.FrameSize {
		return frame{}, http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	return f, nil
}

// peek reads n bytes, at most [readBuffer], which are valid until the next read.
func (r *reader) peek(n int) ([]byte, error) {
	r.prepare(n)
	p, err := r.in.Peek(n)
	_, _ = r.in.Discard(len(p)) // they are in the buffer
	return p, err
}

// readFull fills p.
func (r *reader) readFull(p []byte) error {
	r.prepare(len(p))
	_, err := io.ReadFull(r.in, p)
	return err
}

// skip reads n bytes that are not needed.
func (r *reader) skip(n int) error {
	r.prepare(n)
	_, err := r.in.Discard(n)
	return err
}

// prepare wakes the streams for which something has come, if reading n bytes may block.
func (r *reader) prepare(n int) {
	if r.in.Buffered() < n {
		r.mux.wake()
	}
}

// padding reads the length of the padding of a DATA or HEADERS frame, and returns the length of the
// payload without it.
func (r *reader) padding(f frame, empty http2.ErrCode) (length, padding int, err error) {
	if f.length == 0 {
		return 0, 0, http2.ConnectionError(empty)
	}
	p, err := r.peek(1)
	if err != nil {
		return 0, 0, err
	}
	padding = int(p[0])
	if length = f.length - 1 - padding; length < 0 {
		return 0, 0, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return length, padding, nil
}

// refuse resets a stream for what the peer did on it.
func (r *reader) refuse(err http2.StreamError) error {
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.streams[err.StreamID]; s != nil {
		s.endLocked(err)
	}
	return m.out.answerLocked(appendReset(m.out.buffer(), err.StreamID, err.Code))
}

// dropBlock drops the gathered bytes of a header, and their room in the budget.
func (r *reader) dropBlock() {
	r.mux.mu.Lock()
	defer r.mux.mu.Unlock()
	r.mux.account.releaseHeader(len(r.decoder.block))
	r.decoder.block = nil
}
