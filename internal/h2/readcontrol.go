// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2"
)

// A change of settings concerns all streams, and costs the peer a few bytes. So the peer may make only
// so many at once, and so many a second.
const (
	maxSettings      = 100                      // settings in one frame
	maxControl       = maxSettings * settingLen // bytes read of a control frame
	changesAtOnce    = 100
	changesPerSecond = 10
)

// readControl handles a frame that contains neither data nor a header. It reads at most maxControl
// bytes of the frame before it checks it. Frames that may have any length end with text that is
// skipped.
func (r *reader) readControl(f frame) error {
	if f.length > minFrameSize { // only data frames may have the full frame size
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	p, err := r.peek(min(f.length, maxControl))
	if err != nil {
		return err
	}
	switch f.kind {
	case http2.FrameSettings:
		return r.readSettings(f, p)
	case http2.FrameWindowUpdate:
		return r.readWindowUpdate(f, p)
	case http2.FrameRSTStream:
		return r.readReset(f, p)
	case http2.FramePing:
		return r.readPing(f, p)
	case http2.FrameGoAway:
		return r.readGoAway(f, p)
	case http2.FramePriority:
		return r.readPriority(f, p)
	default: // PUSH_PROMISE; no client allows push
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
}

func (r *reader) readSettings(f frame, p []byte) error {
	switch {
	case f.id != 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case f.flags.Has(http2.FlagSettingsAck) && f.length != 0, f.length%settingLen != 0:
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	case f.flags.Has(http2.FlagSettingsAck):
		r.finishMeasuring()
		return nil
	}
	if f.length > maxSettings*settingLen || !r.settingRate.Allow() {
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
		if s.ID == http2.SettingInitialWindowSize {
			window = int(s.Val) // streams are resized once
			continue
		}
		r.applySettingLocked(s)
	}
	if err := m.resizeLocked(window); err != nil {
		return err
	}
	return m.out.answerLocked(appendSettingsAck(m.out.buffer()))
}

func (r *reader) applySettingLocked(s http2.Setting) {
	m := r.mux
	switch s.ID {
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

func (r *reader) readWindowUpdate(f frame, p []byte) error {
	if f.length != wordLen {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	increment := int(binary.BigEndian.Uint32(p) &^ reservedBit)
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[f.id]
	switch {
	case f.id == 0 && increment == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case f.id == 0 && !m.out.widenLocked(increment):
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	case f.id == 0:
		return nil
	case s == nil && m.isUnusedLocked(f.id):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case s == nil: // it has ended meanwhile
		return nil
	case increment == 0:
		return http2.StreamError{StreamID: f.id, Code: http2.ErrCodeProtocol}
	case !s.widenLocked(increment):
		return http2.StreamError{StreamID: f.id, Code: http2.ErrCodeFlowControl}
	}
	return nil
}

func (r *reader) readReset(f frame, p []byte) error {
	if f.id == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if f.length != wordLen {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	m := r.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isUnusedLocked(f.id) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := m.streams[f.id]; s != nil {
		code := http2.ErrCode(binary.BigEndian.Uint32(p))
		s.peerResetLocked(http2.StreamError{StreamID: f.id, Code: code, Cause: errFromPeer})
	}
	return nil
}

func (r *reader) readPing(f frame, p []byte) error {
	switch {
	case f.id != 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case f.length != pingLen:
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	case !f.flags.Has(http2.FlagPingAck):
		m := r.mux
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.out.answerLocked(appendPong(m.out.buffer(), p))
	}
	switch question := p[pingLen-1]; question {
	case pingRoundTrip:
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

func (r *reader) readGoAway(f frame, p []byte) error {
	if f.id != 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if f.length < 2*wordLen {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	last := binary.BigEndian.Uint32(p) &^ reservedBit
	if err := r.skip(f.length - len(p)); err != nil { // a text for people
		return err
	}
	r.role.goAway(last)
	return nil
}

// readPriority checks a PRIORITY frame. Priorities are deprecated (RFC 9113, 5.3.2).
func (r *reader) readPriority(f frame, p []byte) error {
	if f.id == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err := r.skip(f.length - len(p)); err != nil {
		return err
	}
	if f.length != priorityLen {
		return http2.StreamError{StreamID: f.id, Code: http2.ErrCodeFrameSize}
	}
	return nil
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
