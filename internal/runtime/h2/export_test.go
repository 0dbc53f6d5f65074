// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "time"

// MaxHeld is how many bytes a connection may have pending, besides the header that was appended
// last.
const MaxHeld = 2*maxPending + maxUrgent

// Held returns the largest number of bytes that were pending at once.
func (c *conn) Held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.out.most, len(c.out.pending))
}

// Unread returns how many bytes of all streams were received and not read.
func (c *conn) Unread() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account.unread
}

// Streams returns how many streams of the budget are in use.
func (b *Budget) Streams() int64 { return b.streams.used.Load() }

// HeaderBytes returns how many bytes of headers are reserved.
func (b *Budget) HeaderBytes() int64 { return b.headers.used.Load() }

// Used returns how many bytes are unread.
func (b *Budget) Used() int64 { return b.unread.Load() }

// Cut returns how many streams were ended because memory was short.
func (b *Budget) Cut() int64 { return b.cut.Load() }

// CheckLiveness decides about a peer that was asked and heard at these times.
func CheckLiveness(after, timeout time.Duration, pinged, heard, now time.Time) (bool, time.Duration) {
	l := liveness{pingAfter: after, pingTimeout: timeout, pinged: pinged}
	return l.check(now, heard)
}
