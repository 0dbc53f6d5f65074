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
	// relief is how long an evicted stream may take to free its bytes before the next one is
	// evicted.
	relief = 500 * time.Millisecond
	// maxBudget is how much of a connection can be on its way to this side.
	maxBudget = maxConnectionWindow - initialConnectionWindow
)

// Limits bound what all connections that share a [Budget] may hold together. A peer that asks for
// more is refused: a connection with GOAWAY, a request with REFUSED_STREAM, so that it can be sent
// again elsewhere. Two limits also end what exists: the limit of unread bytes ends streams, and the
// limit of header bytes ends the connection whose header exceeds it.
type Limits struct {
	// Unread limits the bytes of bodies that were received and not read. Past it, the streams whose
	// readers have been idle longest end.
	Unread int64
	// Connections and Streams limit the connections and streams that exist at once. Zero: one
	// connection for each 16 KiB of Unread, but at least 1,024, and one stream for each 4 KiB, but
	// at least 8,192.
	Connections, Streams int
	// HeaderBytes limits the headers of requests and answers under way, as HTTP/2 counts them,
	// including incomplete ones. One connection may use an eighth of it, but at least 4 MiB. Zero: an
	// eighth of Unread, but at least 8 MiB.
	HeaderBytes int64
}

// These constants derive the other limits from the limit of unread bytes, and set a minimum for
// each.
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

// take adds n and reports whether the sum is within the maximum. If it is not, the counter stays as
// it is.
func (b *bounded) take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *bounded) release(n int64) { b.used.Add(-n) }

// member is a connection, as its budget knows it. The budget calls both methods without its
// connections' locks, and evictIdlest also without its own.
type member interface {
	// idleSince returns when the stream with unread bytes whose reader has been idle longest was
	// last read, in nanoseconds. It reports false if there is no such stream.
	idleSince() (int64, bool)
	// evictIdlest ends that stream. It reports whether there was one.
	evictIdlest() bool
}

// Budget bounds what all connections of a process hold for their peers, see [Limits]. It is safe
// for concurrent use.
type Budget struct {
	streams, headers bounded
	maxConns         int
	share            int // of headers, for one connection

	max    int64 // unread bytes
	unread atomic.Int64
	cut    atomic.Int64 // evicted streams, for tests
	// growth is how much larger all windows are than at first. However many readers keep up now,
	// all of them may stop at the same time later. Then this much arrives, and no reader is to
	// blame. Its maximum is half of the budget: the other half is for what windows allow at first.
	growth bounded

	isRelieving atomic.Bool

	mu      sync.Mutex
	members map[member]struct{}
}

// NewBudget returns a budget for that number of unread bytes; all other limits are derived from it.
// It fails if bytes is not positive, or if it exceeds a connection's window: readers that have
// stopped could then use up that window.
func NewBudget(bytes int64) (*Budget, error) { return NewBudgetOf(Limits{Unread: bytes}) }

// NewBudgetOf is [NewBudget] for limits that the caller sets one by one.
func NewBudgetOf(l Limits) (*Budget, error) {
	if l.Unread <= 0 || l.Unread > maxBudget {
		return nil, fmt.Errorf("memory for unread data is %d bytes, want 1 to %d", l.Unread, maxBudget)
	}
	if l.Connections < 0 || l.Streams < 0 || l.HeaderBytes < 0 {
		return nil, fmt.Errorf("limits are %d connections, %d streams and %d bytes of headers, want none below zero",
			l.Connections, l.Streams, l.HeaderBytes)
	}
	b := &Budget{max: l.Unread, members: map[member]struct{}{}, growth: bounded{max: l.Unread / 2}}
	b.maxConns = cmp.Or(l.Connections, int(max(l.Unread/unreadPerConnection, leastConnections)))
	b.streams.max = cmp.Or(int64(l.Streams), max(l.Unread/unreadPerStream, leastStreams))
	b.headers.max = cmp.Or(l.HeaderBytes, max(l.Unread/unreadPerHeaderByte, leastHeaderBytes))
	b.share = int(min(max(b.headers.max/sharesOfHeaders, leastShareOfHeaders), b.headers.max))
	return b, nil
}

// grow reports whether a window may grow by so many bytes. They are given back when its stream
// ends.
func (b *Budget) grow(bytes int) bool {
	return b.unread.Load() <= b.max/2 && b.growth.take(int64(bytes))
}

// join adds a connection and reports whether there was room for it.
func (b *Budget) join(m member) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.members) >= b.maxConns {
		return false
	}
	b.members[m] = struct{}{}
	return true
}

// leave removes a connection, if it has joined.
func (b *Budget) leave(m member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.members, m)
}

// add counts unread bytes. Too many are relieved by a goroutine of their own, because the caller
// holds the lock of a connection.
func (b *Budget) add(bytes int) {
	if b.unread.Add(int64(bytes)) > b.max && bytes > 0 && b.isRelieving.CompareAndSwap(false, true) {
		go b.relieve()
	}
}

// relieve evicts streams, one after the other, until the unread bytes fit.
func (b *Budget) relieve() {
	defer b.isRelieving.Store(false)
	for b.unread.Load() > b.max {
		idlest := b.idlest()
		if idlest == nil {
			return // every reader waits for data: the unread bytes are on their way to them
		}
		before := b.unread.Load()
		if idlest.evictIdlest() {
			b.cut.Add(1)
			b.awaitLess(before)
		}
	}
}

// awaitLess waits until fewer bytes are unread, for a limited time: more bytes may arrive than an
// evicted stream has freed.
func (b *Budget) awaitLess(than int64) {
	look := time.NewTicker(relief / 100)
	defer look.Stop()
	for range 100 {
		if b.unread.Load() < than {
			return
		}
		<-look.C
	}
}

// idlest returns the connection with the stream whose reader has been idle longest; nil if no
// stream has unread bytes.
func (b *Budget) idlest() (idlest member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var since int64
	for m := range b.members {
		if last, ok := m.idleSince(); ok && (idlest == nil || last < since) {
			idlest, since = m, last
		}
	}
	return idlest
}

// account is one connection's part of a budget. The connection's lock guards it.
type account struct {
	budget   *Budget
	unread   int  // bytes of all streams
	headers  int  // bytes
	isClosed bool // unread bytes do not count any more
}

// addUnread counts bytes that have arrived, or were read if bytes is negative.
func (a *account) addUnread(bytes int) {
	if !a.isClosed {
		a.unread += bytes
		a.budget.add(bytes)
	}
}

// close gives the unread bytes back. They can still be read after the end of the connection, but no
// more of them arrive.
func (a *account) close() {
	a.budget.add(-a.unread)
	a.unread, a.isClosed = 0, true
}

// holdHeader reserves bytes of headers. It reports false if the connection, or all connections
// together, would hold too many.
func (a *account) holdHeader(bytes int) bool {
	if a.headers+bytes > a.budget.share || !a.budget.headers.take(int64(bytes)) {
		return false
	}
	a.headers += bytes
	return true
}

// releaseHeader gives reserved bytes back.
func (a *account) releaseHeader(bytes int) {
	a.headers -= bytes
	a.budget.headers.release(int64(bytes))
}
