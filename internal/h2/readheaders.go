// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"slices"

	"golang.org/x/net/http2"
)

// blockStep is how many bytes are allocated for a header at once, however long its frame claims to be.
const blockStep = 16 << 10

// readHeaders handles a HEADERS frame.
func (r *reader) readHeaders(f frame) error {
	if f.id == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
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

// readContinuation handles a CONTINUATION frame.
func (r *reader) readContinuation(f frame) error {
	if f.id == 0 || r.decoder.id == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err := r.decoder.checkLength(r.decoder.frames + f.length); err != nil {
		return err
	}
	return r.readBlock(f, f.length, 0)
}

// readBlock reads a piece of a header and the padding behind it. After the last piece it passes the
// header on.
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

// gather reads a piece of a header that is decoded later. It allocates memory only as bytes arrive, and
// reserves it from the budget.
func (r *reader) gather(bytes int) error {
	d := &r.decoder
	for bytes > 0 {
		n, from := min(bytes, blockStep), len(d.block)
		if !r.holdBlock(n) {
			return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm) // later headers cannot be decoded without this one
		}
		d.block = slices.Grow(d.block, n)[:from+n]
		if read, err := r.readFull(d.block[from:]); err != nil {
			d.block = d.block[:from+read]
			r.releaseBlock(n - read)
			return err
		}
		bytes -= n
	}
	return nil
}

func (r *reader) holdBlock(bytes int) bool {
	r.mux.mu.Lock()
	defer r.mux.mu.Unlock()
	return r.mux.account.holdHeader(bytes)
}

func (r *reader) releaseBlock(bytes int) {
	if bytes > 0 {
		r.mux.mu.Lock()
		defer r.mux.mu.Unlock()
		r.mux.account.releaseHeader(bytes)
	}
}

// dropBlock drops the gathered bytes.
func (r *reader) dropBlock() {
	r.releaseBlock(len(r.decoder.block))
	r.decoder.block = nil
}

// passHeader passes the decoded header to its stream.
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
