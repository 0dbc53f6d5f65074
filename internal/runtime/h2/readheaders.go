// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"slices"

	"golang.org/x/net/http2"
)

// blockStep is how many bytes are allocated for a header at once, however long its frame claims to
// be.
const blockStep = 16 << 10

// readHeaders handles a HEADERS frame. Its priority is ignored; priorities are deprecated. Also the
// header of a stream that was reset is decoded, since later ones refer to its fields.
func (r *reader) readHeaders(f frame) error {
	if err := r.decoder.checkLength(f.length); err != nil {
		return err
	}
	length, padding := f.length, 0
	if f.flags.Has(http2.FlagHeadersPadded) {
		var err error
		if length, padding, err = r.padding(f, http2.ErrCodeProtocol); err != nil {
			return err
		}
	}
	if f.flags.Has(http2.FlagHeadersPriority) {
		if length -= priorityLen; length < 0 {
			return http2.ConnectionError(http2.ErrCodeFrameSize)
		}
		if err := r.skip(priorityLen); err != nil {
			return err
		}
	}
	r.decoder.begin(f.id, f.flags.Has(http2.FlagHeadersEndStream))
	return r.readBlock(f, length, padding)
}

// readContinuation handles a CONTINUATION frame. The length of a header is checked frame by frame,
// before its bytes are read: the frames may be without end (CVE-2023-45288, CVE-2024-27316).
func (r *reader) readContinuation(f frame) error {
	if r.decoder.id == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err := r.decoder.checkLength(r.decoder.frames + f.length); err != nil {
		return err
	}
	return r.readBlock(f, f.length, 0)
}

// readBlock reads a piece of a header and the padding behind it. After the last piece it passes the
// header on. Nearly all headers are one frame that fits into the reader's buffer: they are decoded
// from there, without a copy. The pieces of others are gathered first.
func (r *reader) readBlock(f frame, length, padding int) error {
	d := &r.decoder
	if err := d.count(length); err != nil {
		return err
	}
	isLast := f.flags.Has(http2.FlagHeadersEndHeaders)
	if isLast && d.block == nil && length <= readBuffer {
		p, err := r.peek(length)
		if err != nil {
			return err
		}
		if err := d.decode(p); err != nil {
			return err
		}
	} else if err := r.gather(length); err != nil {
		return err
	}
	if err := r.skip(padding); err != nil || !isLast {
		return err
	}
	if d.block != nil {
		err := d.decode(d.block)
		r.dropBlock()
		if err != nil {
			return err
		}
	}
	defer d.forget()
	return r.passHeader(f.id)
}

// gather reads a piece of a header that is decoded later. It allocates memory only as bytes arrive,
// and reserves it from the budget.
func (r *reader) gather(bytes int) error {
	d := &r.decoder
	for bytes > 0 {
		n, from := min(bytes, blockStep), len(d.block)
		r.mux.mu.Lock()
		isHeld := r.mux.account.holdHeader(n)
		r.mux.mu.Unlock()
		if !isHeld {
			// Later headers cannot be decoded without this one.
			return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
		}
		d.block = slices.Grow(d.block, n)[:from+n]
		if err := r.readFull(d.block[from:]); err != nil {
			return err
		}
		bytes -= n
	}
	return nil
}

// passHeader passes the decoded header to its stream. The lock is not held meanwhile, because the
// role may parse a request, which takes its time. Only this goroutine adds the peer's streams, so
// that a server's stream that is not in the table cannot appear there; one that is may end, which
// the role checks.
func (r *reader) passHeader(id uint32) error {
	m := r.mux
	m.mu.Lock()
	s := m.streams[id]
	isDone := s != nil && s.in.isDone
	m.mu.Unlock()
	switch {
	case s == nil:
		return r.role.openStream(id, &r.decoder)
	case isDone:
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	}
	return r.role.continueStream(s, &r.decoder)
}
