// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "time"

// Flow control of what this side receives, as values: they count and decide, and their callers
// send. The connection's lock guards them.

const (
	// minRoundTrip is the round trip below which windows do not grow: the smallest window then
	// allows more than 200 MiB/s.
	minRoundTrip = 2 * time.Millisecond
	// maxRoundTrip is the longest that is believed. A peer that answers late could otherwise make
	// windows grow that it does not fill.
	maxRoundTrip = time.Second
	// measureInterval is how long a measurement of the round trip is used.
	measureInterval = time.Second
	// initialConnectionWindow is the window of each direction of a connection until its receiver
	// opens it, and maxConnectionWindow the largest that it can open (RFC 9113, 6.9.1 and 6.9.2).
	initialConnectionWindow = 1<<16 - 1
	maxConnectionWindow     = 1<<31 - 1
	// creditStep is how much is received before the connection's window is opened again.
	creditStep = 1 << 20
)

// Windows are a stream's windows for what it receives, in bytes.
type Windows struct {
	// Initial is how much the peer may send at first, Max how much it may send when its reader keeps
	// up.
	Initial, Max int
}

// DefaultWindows allow 300 MiB/s on a stream over 50 ms.
func DefaultWindows() Windows { return Windows{Initial: 512 << 10, Max: 16 << 20} }

// receiveWindow is how much one stream may receive before it is read.
type receiveWindow struct {
	size    int // the most that may be received and unread
	granted int // what the peer may still send
	owed    int // what was read, and is not granted again yet
	grown   int // the part of size that was asked of the budget

	// Each time half of the window was read, its growth is decided by how long that has taken.
	sampled int       // bytes read since
	since   time.Time // the last decision; zero before the first
}

// take counts received bytes. It reports false if they are more than was granted.
func (w *receiveWindow) take(bytes int) bool {
	w.granted -= bytes
	return w.granted >= 0
}

// read counts bytes that were read, and reports whether half of the window was read since the last
// decision to grow.
func (w *receiveWindow) read(bytes int) bool {
	w.owed += bytes
	w.sampled += bytes
	return w.sampled >= w.size/2
}

// growth returns by how much the window should grow: it doubles, up to the limit, if half of it was
// read within about a round trip. How long the first half has taken is not known.
func (w *receiveWindow) growth(now time.Time, roundTrip time.Duration, limit int) int {
	took, isFirst := now.Sub(w.since), w.since.IsZero()
	w.sampled, w.since = 0, now
	if isFirst || roundTrip < minRoundTrip || took > roundTrip*3/2 {
		return 0
	}
	return max(0, min(w.size, limit-w.size))
}

// grow grows the window by as much as the budget has granted.
func (w *receiveWindow) grow(bytes int) {
	w.size += bytes
	w.grown += bytes
	w.owed += bytes
}

// increment returns what to grant the peer now. It is zero while little was read, so that a window
// needs few updates.
func (w *receiveWindow) increment() int {
	if w.owed < w.size/8 {
		return 0
	}
	increment := w.owed
	w.owed = 0
	w.granted += increment
	return increment
}

// connectionCredit is how much the peer may send on all streams together. It is opened as bytes
// arrive, read or not: streams and the budget bound the unread bytes.
type connectionCredit struct{ granted, owed int }

// take counts received bytes, and returns what to grant the peer. It reports false if the bytes are
// more than was granted.
func (c *connectionCredit) take(bytes int) (increment int, ok bool) {
	if c.granted -= bytes; c.granted < 0 {
		return 0, false
	}
	if c.owed += bytes; c.owed < creditStep {
		return 0, true
	}
	increment, c.owed = c.owed, 0
	c.granted += increment
	return increment, true
}

// roundTrip is how long a byte takes to the peer and back. It is measured when the connection
// begins, by the peer's acknowledgement of the settings, and while bodies arrive, by PING.
type roundTrip struct {
	shortest  time.Duration // of all measurements; zero before the first
	asked     time.Time     // when the last one began
	isRunning bool
}

// begin reports whether to measure now, because the last measurement is old.
func (r *roundTrip) begin(now time.Time) bool {
	if r.isRunning || now.Sub(r.asked) < measureInterval {
		return false
	}
	r.isRunning, r.asked = true, now
	return true
}

// finish ends a measurement. The shortest counts: something else held up longer ones.
func (r *roundTrip) finish(now time.Time) {
	took := min(now.Sub(r.asked), maxRoundTrip)
	if r.isRunning && took > 0 && (r.shortest == 0 || took < r.shortest) {
		r.shortest = took
	}
	r.isRunning = false
}
