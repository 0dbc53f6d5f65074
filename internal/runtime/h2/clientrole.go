// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"net/http"

	"golang.org/x/net/http2"
)

// clientRole is the client's [role]: it handles what the reader finds. Only the reader calls it.
type clientRole struct{ *conn }

// goAway implements [role]. It ends the requests that the peer has not begun. The connection ends
// after the others.
func (c clientRole) goAway(last uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.streams {
		if id > last {
			s.endLocked(fmt.Errorf("%w: it goes away", ErrRefused))
		}
	}
	c.isLeaving = true
	if !c.isEnding {
		c.isEnding = true
		go c.closeWhenIdle(0)
	}
}

// openStream implements [role]: the header belongs to an answer to a request that was canceled.
func (c clientRole) openStream(id uint32, _ *headerDecoder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isUnusedLocked(id) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil
}

// continueStream implements [role]: the header is the head or the trailer of an answer. Its bytes
// count until the stream ends, including informational answers, so that many of them are too many.
func (c clientRole) continueStream(s *stream, d *headerDecoder) error {
	call, ok := s.owner.(*call)
	if !ok {
		return http2.ConnectionError(http2.ErrCodeInternal) // a client has no other streams
	}
	malformed := http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasLocked(s) {
		return nil // the request was canceled in the meantime
	}
	if d.isTooLarge() {
		malformed.Cause = ErrHeaderTooLarge
		return malformed
	}
	pseudo, fields, ok := d.split()
	if !ok {
		return malformed
	}
	if !s.holdLocked(d.heldBytes()) {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeEnhanceYourCalm, Cause: ErrBusy}
	}
	if call.res != nil {
		if !d.endsStream || len(pseudo) > 0 {
			return malformed
		}
		s.in.trailer, _ = toHeader(fields)
		return s.endDataLocked()
	}
	status, ok := readStatus(pseudo)
	if !ok {
		return malformed
	}
	header, trailer := toHeader(fields)
	if status < http.StatusOK {
		if d.endsStream || status == http.StatusSwitchingProtocols || s.headers > d.limit ||
			!call.informLocked(status, header) {
			return malformed
		}
		return nil
	}
	call.answerLocked(status, header, trailer, d.endsStream)
	if d.endsStream {
		return s.endDataLocked()
	}
	c.queueWakeLocked(s)
	return nil
}

// handOver implements [role]: a client's reader has nothing else to do.
func (clientRole) handOver() job { return nil }

// pong implements [role]: an answer only shows that the peer is alive.
func (clientRole) pong(byte) {}
