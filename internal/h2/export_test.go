// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

// MaxHeld is how much a connection may have pending beyond the header that was appended last.
const MaxHeld = 2*maxPending + maxUrgent

// Held returns the most bytes that were pending at once.
func (c *conn) Held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.out.most, len(c.out.pending))
}

// Streams and HeaderBytes return how much of the budget is taken.
func (b *Budget) Streams() int64 { return b.streams.used.Load() }

// HeaderBytes returns the bytes of headers that are held.
func (b *Budget) HeaderBytes() int64 { return b.headers.used.Load() }
