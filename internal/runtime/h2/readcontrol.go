// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2"
)

// readControl handles a valid frame that contains neither data nor a header. It reads only the
// beginning of one that may have any length.
func (r *reader) readControl(f frame) error {
	// Only data frames may have the full frame size. The check needs no byte behind the frame's
	// head, so that a peer cannot make this side keep a large frame.
	if f.length > minFrameSize {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	p, err := r.peek(min(f.length, maxControl))
	if err != nil {
		return err
	}
	switch {
	case f.kind == http2.FrameSettings && f.length > maxControl:
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	case f.kind == http2.FrameSettings:
		return r.readSettings(f, p)
	case f.kind == http2.FrameWindowUpdate:
		return r.readWindowUpdate(f.id, int(binary.BigEndian.Uint32(p)&^reservedBit))
	case f.kind == http2.FrameRSTStream:
		return r.readReset(f.id, http2.ErrCode(binary.BigEndian.Uint32(p)))
	case f.kind == http2.FramePing:
		return r.readPing(f, p)
	}
	if f.kind == http2.FrameGoAway {
		r.role.goAway(binary.BigEndian.Uint32(p) &^ reservedBit)
	}
	if err := r.skip(f.length - len(p)); err != nil { // a GOAWAY's text for people
		return err
	}
	if f.kind == http2.FramePriority && f.length != priorityLen { // otherwise it means nothing (RFC 9113, 5.3.2)
		return http2.StreamError{StreamID: f.id, Code: http2.ErrCodeFrameSize}
	}
	return nil
}

// readSettings applies the peer's settings and acknowledges them, or handles the acknowledgement of
// this side's: it comes once, after the beginning, and ends the first measurement of the round
// trip. Settings are in force from their frame on (RFC 9113, 6.5.3). So all of them are applied
// under one lock, and the acknowledgement is behind any frame that was sent under the old ones.
func (r *reader) readSettings(f frame, p []byte) error {
	if f.flags.Has(http2.FlagSettingsAck) {
		r.finishMeasuring()
		return nil
	}
	if !r.settingRate.Allow() {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	window := m.peer.window
	for ; len(p) > 0; p = p[settingLen:] {
		s := http2.Setting{ID: http2.SettingID(binary.BigEndian.Uint16(p)), Val: binary.BigEndian.Uint32(p[2:])}
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingInitialWindowSize:
			window = int(s.Val) // streams are resized once for all settings
		case http2.SettingHeaderTableSize:
			m.out.encoder.setTableSize(s.Val)
		case http2.SettingMaxFrameSize:
			m.out.frameSize = int(s.Val)
		case http2.SettingMaxConcurrentStreams:
			m.peer.streams = int(min(s.Val, maxConnectionWindow))
		case http2.SettingMaxHeaderListSize:
			m.peer.headerBytes = int(min(s.Val, maxConnectionWindow))
		default:
		}
	}
	if err := m.resizeLocked(window); err != nil {
		return err
	}
	return m.out.answerLocked(appendSettingsAck(m.out.buffer()))
}

// readWindowUpdate opens the window of a stream, or the connection's if id is zero. A breach about
// a stream's window costs only the stream. An update for a stream that has ended may have been on
// its way; one for a stream that does not exist yet cannot.
func (r *reader) readWindowUpdate(id uint32, increment int) error {
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[id]
	switch {
	case id == 0 && increment == 0, id != 0 && s == nil && m.isUnusedLocked(id):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case id == 0 && !m.out.widenLocked(increment):
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	case id == 0, s == nil: // a stream may have ended meanwhile
		return nil
	case increment == 0:
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	case !s.widenLocked(increment):
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeFlowControl}
	}
	return nil
}

// readReset ends a stream because the peer wants that. It never answers: two sides that reset a
// stream at the same time would answer each other without end.
func (r *reader) readReset(id uint32, code http2.ErrCode) error {
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isUnusedLocked(id) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := m.streams[id]; s != nil {
		s.peerResetLocked(http2.StreamError{StreamID: id, Code: code, Cause: errFromPeer})
	}
	return nil
}

// readPing answers a PING, or handles an answer. A peer that sends PINGs and does not read the
// answers is ended by the bound of urgent output (CVE-2019-9512).
func (r *reader) readPing(f frame, p []byte) error {
	switch question := p[pingLen-1]; {
	case !f.flags.Has(http2.FlagPingAck):
		m := r.mux
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.out.answerLocked(appendPong(m.out.buffer(), p))
	case question == pingRoundTrip:
		r.finishMeasuring()
	default:
		r.role.pong(question)
	}
	return nil
}

// finishMeasuring ends a measurement of the round trip.
func (r *reader) finishMeasuring() {
	r.mux.mu.Lock()
	defer r.mux.mu.Unlock()
	r.mux.roundTrip.finish(time.Now())
}
