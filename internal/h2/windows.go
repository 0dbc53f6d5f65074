// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "time"

const (
	// minRoundTrip is below what no window has to grow: the smallest ones then allow more than 200 MiB/s.
	minRoundTrip = 2 * time.Millisecond
	// maxRoundTrip is the longest that is believed: a peer that answers late could have windows grow that it does not fill.
	maxRoundTrip = time.Second
	// measureInterval is how long a measurement is good for.
	measureInterval = time.Second
	// initialConnectionWindow is that of each direction of a connection until its receiver opens it, and maxConnectionWindow what it
	// can be opened to (RFC 9113, 6.9.1 and 6.9.2).
	initialConnectionWindow = 1<<16 - 1
	maxConnectionWindow     = 1<<31 - 1
	// connectionCredit is how much is received before the connection's window is opened again.
	connectionCredit = 1 << 20
)

// Windows are a stream's windows for what it receives, in bytes.
type Windows struct {
	// Initial is what the peer may send at first, Max what it may send when its reader keeps up.
	Initial, Max int
}

// DefaultWindows allow 300 MiB/s on a stream over 50 ms.
func DefaultWindows() Windows { return Windows{Initial: 512 << 10, Max: 16 << 20} }

// window is what one stream may receive. The connection's lock guards it.
type window struct {
	size    int // what the peer may have sent that nobody has read
	granted int // what it may still send
	owed    int // what was read and not granted anew
	grown   int // how much of size the budget was asked for

	// Whether the window has to grow is looked at each time half of it was read.
	sample int
	since  time.Time
}

// take counts what has come. It reports false when that is more than was granted.
func (w *window) take(bytes int) bool {
	w.granted -= bytes
	return w.granted >= 0
}

// read counts what was read, and returns what to grant the peer for it: nothing, while that is little.
func (w *window) read(bytes int, c *conn) (increment int) {
	w.owed += bytes
	w.sample += bytes
	if w.sample >= w.size/2 {
		w.owed += w.grow(c)
	}
	if w.owed < w.size/8 {
		return 0
	}
	increment, w.owed = w.owed, 0
	w.granted += increment
	return increment
}

// grow doubles a window of which half was used up within a round trip or so, and returns by how much it has grown.
func (w *window) grow(c *conn) int {
	now := time.Now()
	took := now.Sub(w.since)
	first := w.since.IsZero() // how long what was read so far has taken is not known
	w.sample, w.since = 0, now
	c.measure()
	if first || c.roundTrip < minRoundTrip || took > c.roundTrip*3/2 {
		return 0
	}
	more := min(w.size, c.settings.Windows.Max-w.size)
	if more <= 0 || !c.budget.grow(more) {
		return 0
	}
	w.size += more
	w.grown += more
	return more
}

// measure asks the peer for a sign while bodies keep coming, to see how long the way to it and back takes. The first sign comes without
// being asked for, when the connection begins and the way is free: that the peer has read the settings. It is for the caller to flush. The
// lock is held.
func (c *conn) measure() {
	now := time.Now()
	if c.measuring || now.Sub(c.asked) < measureInterval {
		return
	}
	c.measuring, c.asked = true, now
	c.urge(appendPing(c.out.buffer(), 0, pingNumber(pingRoundTrip)))
}

// measured takes the sign. The shortest time counts: what takes longer was held up by something else.
func (c *conn) measured() {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := min(time.Since(c.asked), maxRoundTrip)
	if c.measuring && took > 0 && (c.roundTrip == 0 || took < c.roundTrip) {
		c.roundTrip = took
	}
	c.measuring = false
}

// close takes note that nothing more comes.
func (w *window) close(c *conn) {
	c.budget.shrink(w.grown)
	w.grown = 0
}
