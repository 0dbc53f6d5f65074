// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrTooSlow is what a reader gets whose stream was ended because it stood still while memory was short.
var ErrTooSlow = errors.New("too much was received that nobody has read, and this reader has stood still for the longest")

// relief is how long an ended stream may take to free what it held before the next one is ended.
const relief = 500 * time.Millisecond

// Budget bounds what all connections of a process have received and nobody has read. It is safe for concurrent use.
type Budget struct {
	max  int64
	used atomic.Int64
	cut  atomic.Int64

	relieving atomic.Bool

	mu     sync.Mutex
	bodies map[*Body]struct{}
}

// NewBudget returns a budget of so many bytes. It fails when that is more than a connection's window, which readers that stand still
// could then use up.
func NewBudget(bytes int64) (*Budget, error) {
	if bytes <= 0 || bytes > maxConnectionWindow {
		return nil, fmt.Errorf("memory for unread data is %d bytes, want more than none and at most %d: a connection's window is not larger",
			bytes, maxConnectionWindow)
	}
	return &Budget{max: bytes, bodies: map[*Body]struct{}{}}, nil
}

// Used is how many bytes are unread, and Cut how many streams were ended for want of memory.
func (b *Budget) Used() int64 { return b.used.Load() }

// Cut is how many streams were ended for want of memory.
func (b *Budget) Cut() int64 { return b.cut.Load() }

// tight reports whether windows had better not grow.
func (b *Budget) tight() bool { return b.used.Load() > b.max/2 }

func (b *Budget) add(bytes int64) {
	if b.used.Add(bytes) > b.max && bytes > 0 && b.relieving.CompareAndSwap(false, true) {
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
		b.cut.Add(1)
		victim.cut()
		b.awaitLess(b.used.Load())
	}
}

// awaitLess waits until less is unread, at most for a while: what comes in may outweigh what an ended stream has freed.
func (b *Budget) awaitLess(than int64) {
	look := time.NewTicker(relief / 100)
	defer look.Stop()
	for range 100 {
		<-look.C
		if b.used.Load() < than {
			return
		}
	}
}

// stillest is the body whose reader has not come for the longest.
func (b *Budget) stillest() *Body {
	b.mu.Lock()
	defer b.mu.Unlock()
	var waiting []*Body
	for body := range b.bodies {
		if !body.reading.Load() && !body.ended.Load() {
			waiting = append(waiting, body)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return slices.MinFunc(waiting, func(x, y *Body) int { return int(x.last.Load() - y.last.Load()) })
}

// Body watches over the reading of one stream.
type Body struct {
	io.ReadCloser

	budget  *Budget
	end     func()
	last    atomic.Int64 // when the reader was last here, in nanoseconds
	reading atomic.Bool
	ended   atomic.Bool

	closing sync.Once
	err     error // of closing
}

// Body returns a stream's body whose reader is watched until it closes it. Calling end must end the stream, whatever is blocked on it;
// that is done in a goroutine of its own. Where end is nil, closing the body does it. The body is closed once at most: HTTP/2's client
// does not bear more.
func (b *Budget) Body(body io.ReadCloser, end func()) *Body {
	watched := &Body{ReadCloser: body, budget: b, end: end}
	watched.last.Store(time.Now().UnixNano())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies[watched] = struct{}{}
	return watched
}

// Read implements io.Reader. It fails with [ErrTooSlow] when the stream was ended.
func (b *Body) Read(p []byte) (int, error) {
	b.reading.Store(true)
	n, err := b.ReadCloser.Read(p)
	b.last.Store(time.Now().UnixNano())
	b.reading.Store(false)
	if err != nil && b.ended.Load() {
		err = ErrTooSlow
	}
	return n, err
}

// Close implements io.Closer.
func (b *Body) Close() error {
	b.budget.mu.Lock()
	delete(b.budget.bodies, b)
	b.budget.mu.Unlock()
	return b.close()
}

func (b *Body) close() error {
	b.closing.Do(func() { b.err = b.ReadCloser.Close() })
	return b.err
}

func (b *Body) cut() {
	b.ended.Store(true)
	if b.end != nil {
		go b.end()
		return
	}
	go func() { _ = b.close() }() // how an ended stream closes tells nobody anything
}
