// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
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

// Budget bounds what all connections of a process have received and nobody has read. It is safe for concurrent use.
type Budget struct {
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

// NewBudget returns a budget of so many bytes. It fails when that is more than a connection's window, which readers that stand still
// could then use up.
func NewBudget(bytes int64) (*Budget, error) {
	if bytes <= 0 || bytes > maxBudget {
		return nil, fmt.Errorf("memory for unread data is %d bytes, want more than none and at most %d: a connection's window is not larger",
			bytes, maxBudget)
	}
	return &Budget{max: bytes, conns: map[*conn]struct{}{}}, nil
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

func (b *Budget) join(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
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
