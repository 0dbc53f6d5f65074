// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"

	"golang.org/x/net/http2"
)

// readData handles a DATA frame. Its bytes are read to where they are kept. If its stream does not
// want them, they are skipped, and count for the connection's window all the same.
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
	if overhead > 0 { // nobody reads it
		s.grantLocked(overhead)
		m.out.flushSoonLocked()
	}
	if f.flags.Has(http2.FlagDataEndStream) {
		return s.endDataLocked()
	}
	return nil
}

// expectData counts a frame and returns its stream, or nil if that has ended and its peer could not
// know.
func (r *reader) expectData(f frame, body int64) (*stream, error) {
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.id == 0 || m.isUnusedLocked(f.id) {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
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

// fill reads data to a stream's inbox. It returns how many bytes it has not read because the stream
// does not want them any more.
func (r *reader) fill(s *stream, bytes int) (left int, err error) {
	for bytes > 0 {
		chunk, p := r.reserve(s, bytes)
		if chunk == nil {
			break
		}
		if _, err := r.readFull(p); err != nil {
			return bytes, err
		}
		bytes -= len(p)
		r.commit(s, chunk, len(p))
	}
	return bytes, nil
}

// reserve returns where to put data for a stream; nil if it does not want them any more.
func (r *reader) reserve(s *stream, bytes int) (*chunk, []byte) {
	r.mux.mu.Lock()
	defer r.mux.mu.Unlock()
	if s.in.isClosed {
		return nil, nil
	}
	return s.in.inbox.reserve(bytes)
}

// commit adds reserved bytes that were read.
func (r *reader) commit(s *stream, chunk *chunk, bytes int) {
	r.mux.mu.Lock()
	defer r.mux.mu.Unlock()
	if !s.in.isClosed {
		s.in.inbox.commit(chunk, bytes)
		r.mux.account.addUnread(bytes)
		r.mux.queueWakeLocked(s)
	}
}
