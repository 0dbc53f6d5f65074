// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"errors"
	"io"
	"time"
)

// The reader of a body takes its bytes in two steps, front and consume, and copies or writes them
// between the steps without the lock. The peer is granted new bytes in the first step already:
// otherwise a reader that writes slowly would have the peer wait for each write. A reader that is
// between the steps counts as idle since its last consume, and so may be evicted while it writes.

// read reads what has come, and blocks while there is nothing.
func (s *stream) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var pieces [4][]byte
	front, err := s.front(pieces[:0], len(p))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, piece := range front {
		n += copy(p[n:], piece)
	}
	if err := s.consume(n); err != nil {
		return 0, err
	}
	return n, nil
}

// writeTo writes everything that comes to w, without copying it first.
func (s *stream) writeTo(w io.Writer) (written int64, err error) {
	for {
		var pieces [4][]byte
		front, err := s.front(pieces[:0], len(pieces)*bulk)
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		for _, piece := range front {
			n, err := w.Write(piece)
			written += int64(n)
			if err := cmp.Or(err, s.consume(n)); err != nil {
				return written, err
			}
		}
	}
}

// front returns the oldest unread bytes as [inbox.front] does, and blocks while there are none.
// They stay in the inbox until they are consumed, but the peer may send as many again from now on.
func (s *stream) front(to [][]byte, bytes int) ([][]byte, error) {
	m := s.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	for s.in.inbox.size == 0 {
		if err := s.readEndLocked(); err != nil {
			return nil, err
		}
		s.in.isAwaited = true
		s.in.readable.Wait()
		s.in.isAwaited = false
	}
	front := s.in.inbox.front(to, bytes)
	n := 0 // some of it may have been granted before, if less than that was consumed
	for _, piece := range front {
		n += len(piece)
	}
	if n > s.in.ahead {
		s.grantLocked(n - s.in.ahead)
		s.in.ahead = n
	}
	m.out.flushLocked()
	return front, nil
}

// consume removes bytes that were read. It fails if the stream was closed meanwhile: its reader
// must not use them, either.
func (s *stream) consume(bytes int) error {
	now := time.Now().UnixNano()
	m := s.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	s.in.lastRead = now
	if s.in.isClosed {
		return s.readEndLocked()
	}
	s.in.inbox.consume(bytes)
	s.in.ahead -= bytes
	m.account.addUnread(-bytes)
	if s.in.inbox.size == 0 {
		delete(m.leftovers, s.id)
	}
	return nil
}

// grantLocked lets the peer send as much again as was read, and more if the window grows. It also
// measures the round trip, which decides growth, while bodies arrive. The budget has to agree to
// growth: if many readers that were fast stop together, all grown windows fill up. The caller
// flushes.
func (s *stream) grantLocked(bytes int) {
	if s.in.isDone || s.err != nil {
		return
	}
	m, w := s.mux, &s.in.window
	if w.read(bytes) {
		now := time.Now()
		if m.roundTrip.begin(now) {
			m.out.urgeLocked(appendPing(m.out.buffer(), pingRoundTrip))
		}
		more := w.growth(now, m.roundTrip.shortest, m.settings.Windows.Max)
		if more > 0 && m.account.budget.grow(more) {
			w.grow(more)
		}
	}
	if increment := w.increment(); increment > 0 {
		m.out.urgeLocked(appendWindowUpdate(m.out.buffer(), s.id, increment))
	}
}

// readEndLocked returns why there is nothing to read any more, io.EOF at the end. It returns nil
// while something may come.
func (s *stream) readEndLocked() error {
	switch {
	case s.err != nil:
		return s.err
	case s.in.isClosed:
		return errBodyClosed
	case s.in.isDone:
		return io.EOF
	}
	return s.in.expired
}
