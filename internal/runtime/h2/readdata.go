// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"

	"golang.org/x/net/http2"
)

// readData handles a DATA frame. Its bytes are read to where they are kept, in three steps: with
// the lock, the frame is counted and its stream found; without the lock, bytes are read to the
// stream's inbox, while its reader may already read the first of them; with the lock, the frame's
// end takes effect. The stream may end between the steps: then the other bytes are skipped. Bytes
// that are skipped count for the connection's window as well, or the two sides would count
// differently.
func (r *reader) readData(f frame) error {
	body, padding, overhead := f.length, 0, 0
	if f.flags.Has(http2.FlagDataPadded) {
		var err error
		if body, padding, err = r.padding(f, http2.ErrCodeFrameSize); err != nil {
			return err
		}
		overhead = f.length - body
	}
	s, err := r.expectData(f, int64(body))
	if err == nil && s != nil {
		if body, err = r.fill(s, body); err != nil {
			return err
		}
	} else if _, ofStream := errors.AsType[http2.StreamError](err); err != nil && !ofStream {
		return err
	}
	if skipped := r.skip(body + padding); skipped != nil {
		return skipped
	}
	if s == nil || err != nil {
		return err
	}
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if overhead > 0 { // padding counts for the window, and no reader will ever read it
		s.grantLocked(overhead)
		m.out.flushSoonLocked()
	}
	if f.flags.Has(http2.FlagDataEndStream) {
		return s.endDataLocked()
	}
	return nil
}

// expectData counts a frame and returns its stream, or nil if that has ended and the peer could not
// know. It is called before a byte of the frame was read: a peer that breaks a bound does not get
// room for its bytes first.
func (r *reader) expectData(f frame, body int64) (*stream, error) {
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isUnusedLocked(f.id) {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	// The connection's window is opened as bytes arrive, whether they are wanted or not. Otherwise
	// streams that were reset with data on its way would close it for all others.
	increment, ok := m.credit.take(f.length)
	if !ok {
		return nil, http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	if increment > 0 {
		m.out.urgeLocked(appendWindowUpdate(m.out.buffer(), 0, increment))
		m.out.flushSoonLocked()
	}
	s := m.streams[f.id]
	switch {
	case s == nil && m.isServer: // the client has ended the stream, or should have read that it has ended
		return nil, http2.StreamError{StreamID: f.id, Code: http2.ErrCodeStreamClosed}
	case s == nil: // it was on its way when the request was canceled
		return nil, nil
	case s.in.isDone:
		return nil, http2.StreamError{StreamID: f.id, Code: http2.ErrCodeStreamClosed}
	case !s.owner.canReceiveLocked(body):
		return nil, http2.StreamError{StreamID: f.id, Code: http2.ErrCodeProtocol}
	case !s.in.window.take(f.length):
		return nil, http2.StreamError{StreamID: f.id, Code: http2.ErrCodeFlowControl}
	}
	if s.in.received += body; s.in.declared >= 0 && s.in.received > s.in.declared {
		return nil, http2.StreamError{StreamID: f.id, Code: http2.ErrCodeProtocol}
	}
	return s, nil
}

// fill reads data to a stream's inbox, without the lock while it reads. It returns how many bytes
// it has not read because the stream does not want them any more.
func (r *reader) fill(s *stream, bytes int) (left int, err error) {
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	for bytes > 0 && !s.in.isClosed {
		chunk, p := s.in.inbox.reserve(bytes)
		m.mu.Unlock()
		err := r.readFull(p)
		m.mu.Lock()
		if err != nil {
			return bytes, err
		}
		bytes -= len(p)
		if !s.in.isClosed {
			s.in.inbox.commit(chunk, len(p))
			m.account.addUnread(len(p))
			m.queueWakeLocked(s)
		}
	}
	return bytes, nil
}
