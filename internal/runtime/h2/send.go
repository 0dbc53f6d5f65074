// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "cmp"

// send sends data, as fast as the peer takes it, and the end of the data. It returns how much was
// sent, or will be.
func (s *stream) send(p []byte, end bool) (int, error) {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	sent, err := s.enqueueLocked(p, end)
	s.mux.out.flushLocked()
	return sent, err
}

// enqueueLocked is send without the last flush. It releases the lock while it waits.
//
// Each round appends one frame, as large as the stream's window, the peer's frames and the output
// allow. Room in the output is asked for before the connection's window is taken, so that a stream
// that waits holds neither. After its frame a stream goes to the end of the queue. So a peer that
// opens the connection's window bit by bit cannot starve a stream (CVE-2019-9511).
func (s *stream) enqueueLocked(p []byte, end bool) (sent int, err error) {
	o := &s.mux.out
	defer o.unqueueLocked(&s.out.turn) // also if it fails: the first of a queue is the only one that is woken
	for {
		switch {
		case s.err != nil:
			return sent, s.err
		case o.err != nil:
			return sent, o.err
		case s.out.isDone:
			return sent, errAnswerOver
		case len(p) == 0 && !end:
			return sent, nil
		}
		n := min(len(p), max(s.out.window, 0), o.frameSize, maxPending)
		if len(p) > 0 && (n == 0 || !o.canAppendData(&s.out.turn)) {
			s.awaitRoomLocked(n == 0)
			continue
		}
		n = min(n, max(o.window, 0))
		isLast := end && n == len(p)
		o.appendData(s.id, p[:n], isLast)
		s.out.window -= n
		p, sent = p[n:], sent+n
		o.unqueueLocked(&s.out.turn) // with more to send, it goes behind the waiting streams
		if isLast {
			s.finishSendingLocked()
			return sent, nil
		}
	}
}

// awaitRoomLocked blocks until there may be room for data: in the stream's window if that is
// closed, or else in the output. It first writes the pending output, without a place in the queue:
// other streams can meanwhile append to the next write.
func (s *stream) awaitRoomLocked(isWindowClosed bool) {
	o, turn := &s.mux.out, &s.out.turn
	switch {
	case o.canFlush():
		o.unqueueLocked(turn)
		o.flushLocked()
	case isWindowClosed:
		o.unqueueLocked(turn)
		turn.cond.Wait()
	default:
		o.queueLocked(turn)
		turn.cond.Wait()
	}
}

// awaitHeaderTurnLocked blocks until the stream may append a header. The caller does so before it
// releases the lock. It fails if the stream has ended. It releases the lock while it waits.
func (s *stream) awaitHeaderTurnLocked() error {
	s.mux.out.awaitHeaderTurnLocked(&s.out.turn)
	return cmp.Or(s.err, s.mux.out.err)
}

// sendTrailerLocked sends the header that the encoder has as the last one.
func (s *stream) sendTrailerLocked() {
	o := &s.mux.out
	o.pending = o.withHeader(s.id, true)
	s.finishSendingLocked()
	o.flushLocked()
}
