// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"net/http"
	"sync"

	"golang.org/x/net/http2"
)

// stream is one request and its answer: one direction that one goroutine writes to, and one that
// one goroutine reads from. The connection's lock guards all fields but mux and owner, which are
// constant. A stream ends when both directions are finished, or with an error.
type stream struct {
	mux     *mux
	owner   streamHandler
	id      uint32
	err     error // why it has ended early; nil otherwise
	headers int   // bytes of headers reserved from the budget
	out     outgoing
	in      incoming
}

// outgoing is the direction that this side sends.
type outgoing struct {
	window int // what the peer still takes
	isDone bool
	turn   waiter // signaled when it is the stream's turn, the window has grown, or sending has ended
}

// incoming is the direction that this side receives. Bytes from before its end can still be read.
type incoming struct {
	inbox     inbox
	window    receiveWindow
	ahead     int   // the part of the inbox that the peer may send again already
	isDone    bool  // the peer has sent its last byte
	isClosed  bool  // nothing is read any more
	isAwaited bool  // a goroutine waits for bytes
	isWoken   bool  // it is among the reader's wakes
	lastRead  int64 // when bytes were last read, in nanoseconds
	readable  sync.Cond
	declared  int64 // Content-Length; -1 if there is none
	received  int64
	trailer   http.Header
	expired   error // set when the deadline for reading has passed
}

// streamHandler is the request that a stream carries, at either side.
type streamHandler interface {
	// receivedLocked is called after something has come, once for all frames that come together.
	receivedLocked()
	// endedLocked is called when the stream ends early.
	endedLocked(err error)
	// stopSendingLocked is called when the peer does not want the rest of the request.
	stopSendingLocked()
	// canReceiveLocked reports whether so much data may come now.
	canReceiveLocked(bytes int64) bool
	// sentLocked is called when the last byte is queued, before the peer can see the end.
	sentLocked()
}

func (s *stream) initLocked(m *mux, owner streamHandler) {
	s.mux, s.owner = m, owner
	s.out.turn.cond.L, s.in.readable.L = &m.mu, &m.mu
	s.out.window = m.peer.window
	s.in.window = receiveWindow{size: m.settings.Windows.Initial, granted: m.settings.Windows.Initial}
	s.in.declared, s.in.lastRead = -1, m.network.heard.Load()
}

// holdLocked reserves room for one of the stream's headers from the budget. It reports false if
// there is not enough.
func (s *stream) holdLocked(bytes int) bool {
	if !s.mux.account.holdHeader(bytes) {
		return false
	}
	s.headers += bytes
	return true
}

// releaseLocked gives back to the budget what the stream has reserved.
func (s *stream) releaseLocked() {
	s.mux.account.releaseHeader(s.headers)
	s.mux.account.budget.streams.release(1)
	s.headers = 0
}

// wakeLocked wakes the goroutines that wait for what has come.
func (s *stream) wakeLocked() {
	s.in.isWoken = false
	s.in.readable.Signal()
	s.owner.receivedLocked()
}

// endLocked ends both directions early. Earlier bytes can still be read.
func (s *stream) endLocked(err error) {
	if s.err == nil {
		s.err = err
	}
	s.out.turn.isOver = true
	s.stopReceivingLocked()
	s.mux.removeLocked(s)
	s.out.turn.cond.Broadcast()
	s.in.readable.Broadcast()
	s.owner.endedLocked(s.err)
}

// resetLocked ends both directions with a reset, unless they have ended. Received bytes are
// dropped. The caller flushes.
func (s *stream) resetLocked(code http2.ErrCode, err error) {
	s.dropLocked()
	if !s.mux.hasLocked(s) {
		if s.err == nil {
			s.err = err // for a goroutine that reads what came before
		}
		return
	}
	if out := &s.mux.out; out.err == nil {
		out.urgeLocked(appendReset(out.buffer(), s.id, code))
	}
	s.endLocked(err)
}

// fail is resetLocked for callers without the lock.
func (s *stream) fail(code http2.ErrCode, err error) {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	s.resetLocked(code, err)
	s.mux.out.flushSoonLocked()
}

// dropLocked drops what has come, and what will.
func (s *stream) dropLocked() {
	if !s.in.isClosed {
		s.in.isClosed = true
		s.mux.account.addUnread(-s.in.inbox.drop())
		delete(s.mux.leftovers, s.id)
		s.in.readable.Broadcast()
	}
}

// peerResetLocked handles a reset by the peer. A server that has answered completely may only want
// no more of the request. A client that resets a request does not want the answer either.
func (s *stream) peerResetLocked(err http2.StreamError) {
	if s.mux.isServer || !s.in.isDone {
		s.endLocked(err)
		return
	}
	s.finishSendingLocked()
	s.out.turn.cond.Broadcast()
	s.owner.stopSendingLocked()
}

// finishSendingLocked records that the last byte was sent.
func (s *stream) finishSendingLocked() {
	s.out.isDone = true
	s.owner.sentLocked()
	if s.in.isDone {
		s.mux.removeLocked(s)
	}
}

// finishReceivingLocked records that the last byte has come.
func (s *stream) finishReceivingLocked() {
	s.in.isDone = true
	s.stopReceivingLocked()
	if s.out.isDone {
		s.mux.removeLocked(s)
	}
	s.mux.queueWakeLocked(s)
}

// stopReceivingLocked gives back to the budget what the stream's window has grown.
func (s *stream) stopReceivingLocked() {
	s.mux.account.budget.growth.release(int64(s.in.window.grown))
	s.in.window.grown = 0
}

// endDataLocked handles the end of what the peer sends. If it is shorter than declared, a server
// refuses the request. A client has the answer's reader fail, since the peer has nothing left that
// could be reset.
func (s *stream) endDataLocked() error {
	if s.in.declared >= 0 && s.in.received != s.in.declared {
		if s.mux.isServer {
			return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
		}
		s.err = io.ErrUnexpectedEOF
	}
	s.finishReceivingLocked()
	return nil
}

// widenLocked lets more be sent, or less. It reports false if the window is then too large.
func (s *stream) widenLocked(by int) bool {
	before := s.out.window
	s.out.window += by
	if before <= 0 && s.out.window > 0 {
		s.out.turn.cond.Broadcast() // otherwise it waits for the connection only
	}
	return s.out.window <= maxConnectionWindow
}
