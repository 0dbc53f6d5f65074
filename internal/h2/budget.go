// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// relief is how long an ended stream may take to free what it held before the next one is ended.
	relief = 500 * time.Millisecond
	// maxBudget is what a connection can have on its way to this side.
	maxBudget = maxConnectionWindow - initialConnectionWindow
)

// Limits bound what all connections that share a [Budget] may hold together. A peer that asks for more is refused: a
// connection with GOAWAY, a request with REFUSED_STREAM, so that it can be sent again elsewhere. Two limits also end what
// exists: that of unread bytes ends streams, and that of header bytes ends the connection whose header exceeds it.
type Limits struct {
	// Unread limits the bytes of bodies that were received and not read. Past it, the streams whose readers have been
	// idle longest end.
	Unread int64
	// Connections and Streams limit the connections and streams that exist at once. Zero: one connection for each
	// 16 KiB of Unread, but at least 1,024, and one stream for each 4 KiB, but at least 8,192.
	Connections, Streams int
	// HeaderBytes limits the headers of requests and answers under way, as HTTP/2 counts them, and those that have not
	// arrived completely. One connection may use an eighth of it, but at least 4 MiB. Zero: an eighth of Unread, but at
	// least 8 MiB.
	HeaderBytes int64
}

// These constants derive the other limits from the limit of unread bytes, and set a minimum for each.
const (
	unreadPerConnection = 16 << 10
	unreadPerStream     = 4 << 10
	unreadPerHeaderByte = 8
	leastConnections    = 1 << 10
	leastStreams        = 8 << 10
	leastHeaderBytes    = 8 << 20
	sharesOfHeaders     = 8
	leastShareOfHeaders = 4 << 20
)

// bounded is a counter that does not exceed its maximum.
type bounded struct {
	max  int64
	used atomic.Int64
}

// take adds n and reports whether the sum is within the maximum. If it is not, the counter stays as it is.
func (b *bounded) take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *bounded) release(n int64) { b.used.Add(-n) }

// Budget bounds what all connections of a process hold for their peers, see [Limits]. It is safe for concurrent use.
type Budget struct {
	streams, headers bounded
	maxConns         int
	share            int // of headers, for one connection

	max  int64
	used atomic.Int64
	cut  atomic.Int64
	// grown is what windows allow beyond what they did at first. However many readers keep up now, all of them may be held up at the
	// same time later, and then this much comes without any of them being to blame.
	grown atomic.Int64

	relieving atomic.Bool

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// NewBudget returns a budget for that number of unread bytes; all other limits are derived from it. It fails if bytes
// is not positive, or if it exceeds a connection's window: readers that have stopped could then use up that window.
func NewBudget(bytes int64) (*Budget, error) { return NewBudgetOf(Limits{Unread: bytes}) }

// NewBudgetOf is [NewBudget] for limits that the caller sets one by one.
func NewBudgetOf(l Limits) (*Budget, error) {
	if l.Unread <= 0 || l.Unread > maxBudget {
		return nil, fmt.Errorf("memory for unread data is %d bytes, want more than none and at most %d: a connection's window is not larger",
			l.Unread, maxBudget)
	}
	if l.Connections < 0 || l.Streams < 0 || l.HeaderBytes < 0 {
		return nil, fmt.Errorf("limits are %d connections, %d streams and %d bytes of headers, want none below zero", l.Connections, l.Streams, l.HeaderBytes)
	}
	b := &Budget{max: l.Unread, conns: map[*conn]struct{}{}}
	b.maxConns = cmp.Or(l.Connections, int(max(l.Unread/unreadPerConnection, leastConnections)))
	b.streams.max = cmp.Or(int64(l.Streams), max(l.Unread/unreadPerStream, leastStreams))
	b.headers.max = cmp.Or(l.HeaderBytes, max(l.Unread/unreadPerHeaderByte, leastHeaderBytes))
	b.share = int(min(max(b.headers.max/sharesOfHeaders, leastShareOfHeaders), b.headers.max))
	return b, nil
}

// Used is how many bytes are unread.
func (b *Budget) Used() int64 { return b.used.Load() }

// Cut is how many streams were ended for want of memory.
func (b *Budget) Cut() int64 { return b.cut.Load() }

// grow reports whether a window may grow by so many bytes, which are given back when its stream ends. Half of the budget is there for
// it: the rest is for what windows allow at first.
func (b *Budget) grow(bytes int) bool {
	if b.used.Load() > b.max/2 {
		return false
	}
	if b.grown.Add(int64(bytes)) > b.max/2 {
		b.grown.Add(-int64(bytes))
		return false
	}
	return true
}

// shrink gives back what a window has grown.
func (b *Budget) shrink(bytes int) { b.grown.Add(-int64(bytes)) }

// join counts a connection and reports whether there was room for it.
func (b *Budget) join(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.conns) >= b.maxConns {
		return false
	}
	b.conns[c] = struct{}{}
	return true
}

func (b *Budget) leave(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

func (b *Budget) add(bytes int) {
	if b.used.Add(int64(bytes)) > b.max && bytes > 0 && b.relieving.CompareAndSwap(false, true) {
		go b.relieve()
	}
}

// relieve ends streams, one after the other, until what is unread fits.
func (b *Budget) relieve() {
	defer b.relieving.Store(false)
	for b.used.Load() > b.max {
		victim := b.stillest()
		if victim == nil {
			return // every reader waits for data: what is unread is on its way to them
		}
		before := b.used.Load()
		if victim.cut() {
			b.cut.Add(1)
			b.awaitLess(before)
		}
	}
}

// awaitLess waits until less is unread, at most for a while: what comes in may outweigh what an ended stream has freed.
func (b *Budget) awaitLess(than int64) {
	look := time.NewTicker(relief / 100)
	defer look.Stop()
	for range 100 {
		if b.used.Load() < than {
			return
		}
		<-look.C
	}
}

// stillest is the stream with something to read whose reader has not come for the longest.
func (b *Budget) stillest() *stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	var still *stream
	var since int64
	for c := range b.conns {
		if s, last := c.stillest(); s != nil && (still == nil || last < since) {
			still, since = s, last
		}
	}
	return still
}

// stillest is the connection's, and when its reader came last, in nanoseconds.
func (c *conn) stillest() (still *stream, since int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	consider := func(s *stream) {
		if s.inbox.size > 0 && !s.reading && (still == nil || s.lastRead < since) {
			still, since = s, s.lastRead
		}
	}
	for _, s := range c.streams {
		consider(s)
	}
	for s := range c.rest {
		consider(s)
	}
	return still, since
}
