// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"sync"

	"golang.org/x/net/http2"
)

// mux is shared by the streams of one connection. Its parts share one lock because they change
// together: a frame of data takes from a stream's window and from the connection's, and is appended
// to the pending output; the end of a stream concerns the table, the budget and the output. Each
// part is a value with a subject of its own, and none calls mux.
type mux struct {
	mu       sync.Mutex // guards all fields below, and the fields of all streams
	isServer bool       // constant, as are settings
	settings Settings
	network  network // needs no lock

	out       output
	peer      peerSettings
	credit    connectionCredit
	roundTrip roundTrip
	account   account

	streams map[uint32]*stream
	last    uint32 // the largest id of a stream so far
	// leftovers are streams that have ended with unread bytes, which still count.
	leftovers map[uint32]*stream
	idle      sync.Cond // broadcast when the last stream has ended, when everything is written, and at the end
	wakes     []*stream // those for which something has come; the reader wakes them before it blocks
}

// addLocked adds a stream to the table.
func (m *mux) addLocked(s *stream, id uint32) {
	s.id = id
	m.last = id
	m.streams[id] = s
}

// hasLocked reports whether a stream is in the table: it has not ended in both directions.
func (m *mux) hasLocked(s *stream) bool { return m.streams[s.id] == s }

// removeLocked removes a stream that has ended in both directions. Its room in the budget is free
// again, except for a request: its handler may still use the header, and frees it when it returns.
func (m *mux) removeLocked(s *stream) {
	if !m.hasLocked(s) {
		return
	}
	delete(m.streams, s.id)
	if !m.isServer {
		s.releaseLocked()
	}
	if s.in.inbox.size > 0 && !s.in.isClosed {
		m.leftovers[s.id] = s
	}
	if len(m.streams) == 0 {
		m.idle.Broadcast()
	}
}

// isUnusedLocked reports whether no stream has had the id so far. Even ids are for push.
func (m *mux) isUnusedLocked(id uint32) bool { return id > m.last || id%2 == 0 }

// queueWakeLocked has a stream woken after the frames that have come together. Only the reader of
// the connection calls it.
func (m *mux) queueWakeLocked(s *stream) {
	if !s.in.isWoken {
		s.in.isWoken = true
		m.wakes = append(m.wakes, s)
	}
}

// wake wakes the queued streams. Only the reader of the connection calls it.
func (m *mux) wake() {
	if len(m.wakes) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.wakes {
		s.wakeLocked()
		m.wakes[i] = nil
	}
	m.wakes = m.wakes[:0]
}

// resizeLocked changes how much the peer takes on each stream at first, including existing ones.
func (m *mux) resizeLocked(window int) error {
	more := window - m.peer.window
	m.peer.window = window
	if more == 0 {
		return nil
	}
	for _, s := range m.streams {
		if !s.widenLocked(more) {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	}
	return nil
}

// stopLocked ends all streams for the reason that the connection has ended. The bytes that they
// have received can still be read, but do not count any more.
func (m *mux) stopLocked(err error) {
	m.out.stopLocked(err)
	m.account.close()
	for _, s := range m.streams {
		s.endLocked(err)
	}
	clear(m.leftovers)
	m.idle.Broadcast()
}

// idlestLocked returns the stream with unread bytes whose reader has been idle longest; nil if
// there is none.
func (m *mux) idlestLocked() (idlest *stream) {
	for _, table := range [...]map[uint32]*stream{m.streams, m.leftovers} {
		for _, s := range table {
			if s.in.inbox.size > 0 && !s.in.isAwaited && (idlest == nil || s.in.lastRead < idlest.in.lastRead) {
				idlest = s
			}
		}
	}
	return idlest
}

// idleSince implements [member].
func (m *mux) idleSince() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.idlestLocked(); s != nil {
		return s.in.lastRead, true
	}
	return 0, false
}

// evictIdlest implements [member].
func (m *mux) evictIdlest() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.idlestLocked()
	if s == nil {
		return false
	}
	s.resetLocked(http2.ErrCodeCancel, ErrTooSlow)
	m.out.flushSoonLocked()
	return true
}
