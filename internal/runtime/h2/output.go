// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// These constants bound the output that a connection keeps for a peer that reads slowly or not at
// all. The length of pending is at most their sum and one frame or header beyond maxPending. Bytes
// that are being written were pending before, so the same bound applies to them.
const (
	// maxPending is the number of pending bytes at which data and headers wait (CVE-2019-9517). It
	// is also the size of the largest data frame, even if the peer accepts larger ones.
	maxPending = 128 << 10
	// maxUrgent bounds the part of pending that cannot wait: resets, window updates, and answers to
	// control frames. More than that ends the connection (CVE-2019-9512, -9514, -9515).
	maxUrgent = 64 << 10
	// writeSize is how much is written at once. The peer has the write timeout for each.
	writeSize = 64 << 10
)

// ender ends the connection that an output belongs to.
type ender interface {
	// failLocked ends the connection at once.
	failLocked(err error)
	// endLocked ends it because of what the peer did, after a GOAWAY with the code.
	endLocked(code http2.ErrCode, err error)
}

// output writes the frames of a connection. A goroutine with a frame to send appends it and writes
// everything that is pending. If another goroutine is already writing, a new goroutine writes the
// rest after it. So frames that several goroutines send at the same time go out in one write, and
// no goroutine writes more than what was pending when it began. The connection's lock guards an
// output.
//
// Data waits for room in pending and for the connection's window. Streams with more data than there
// is room for take turns, one frame each. Headers wait for room only, and go before data. Frames
// that cannot wait are appended by urgeLocked.
//
// After the connection's end nothing is written any more, except for a GOAWAY while it lingers.
type output struct {
	mu      *sync.Mutex // the connection's
	network *network
	ender   ender
	encoder headerEncoder
	drained *sync.Cond // broadcast when everything is written

	err         error // why the connection has ended; nil before
	isLingering bool  // pending is still written after the end

	pending   []byte
	urgent    int // bytes of pending that could not wait
	most      int // the most that was pending when a write began
	isWriting bool

	window    int       // what the peer takes on all streams together
	frameSize int       // the largest frame that the peer takes
	headers   []*waiter // waiters to append a header, in order of arrival
	data      []*waiter // waiters to append data, in order of arrival

	watch writeWatch
}

// waiter is a goroutine that waits until it may append frames.
type waiter struct {
	cond     sync.Cond
	isOver   bool // it need not wait any more
	isQueued bool // it is in the queue for data
}

func (o *output) init(mu *sync.Mutex, drained *sync.Cond, network *network, ender ender, timeout time.Duration) {
	o.mu, o.drained, o.network, o.ender = mu, drained, network, ender
	o.window, o.frameSize = initialConnectionWindow, minFrameSize
	o.watch.timeout = timeout
	o.encoder.init()
}

// buffer returns pending, to append a frame to.
func (o *output) buffer() []byte {
	if o.pending == nil {
		o.pending = newBuffer()
	}
	return o.pending
}

// isFull reports whether headers and data must wait.
func (o *output) isFull() bool { return len(o.pending) >= maxPending }

// canFlush reports whether there is something that the caller may write.
func (o *output) canFlush() bool { return !o.isWriting && len(o.pending) > 0 && o.err == nil }

// urgeLocked sets pending, to which the caller has appended a frame that cannot wait for room. It
// ends the connection if the peer leaves too many such bytes unread. The caller then flushes.
func (o *output) urgeLocked(pending []byte) {
	o.urgent += len(pending) - len(o.pending)
	o.pending = pending
	if o.urgent > maxUrgent && o.err == nil {
		o.pending, o.urgent = pending[:0], 0 // makes room for the GOAWAY with the reason
		o.ender.endLocked(http2.ErrCodeEnhanceYourCalm, errFlood)
	}
}

// answerLocked is urgeLocked for the reader, which must not wait for its peer: another goroutine
// writes. It fails if the connection has ended.
func (o *output) answerLocked(pending []byte) error {
	o.urgeLocked(pending)
	o.flushSoonLocked()
	return o.err
}

// appendData appends data, for which the caller has found room.
func (o *output) appendData(id uint32, data []byte, end bool) {
	o.pending = appendData(o.buffer(), id, data, end)
	o.window -= len(data)
}

// withHeader returns pending with the header that the encoder has.
func (o *output) withHeader(id uint32, end bool) []byte {
	return appendBlock(o.buffer(), id, o.encoder.block.Bytes(), end, o.frameSize)
}

// flushLocked writes the pending output, unless another goroutine is writing. It releases the lock
// while it writes.
func (o *output) flushLocked() {
	if !o.canFlush() {
		return
	}
	o.isWriting = true
	o.writeLocked()
	if o.shouldWrite() {
		go o.drain()
		return
	}
	o.isWriting = false
	o.drained.Broadcast()
}

// flushSoonLocked has another goroutine write the pending output.
func (o *output) flushSoonLocked() {
	if o.canFlush() {
		o.isWriting = true
		go o.drain()
	}
}

// drain writes until nothing is pending.
func (o *output) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.shouldWrite() {
		o.writeLocked()
	}
	o.isWriting = false
	o.drained.Broadcast()
}

// shouldWrite reports whether the writing goroutine has more to write.
func (o *output) shouldWrite() bool { return len(o.pending) > 0 && (o.err == nil || o.isLingering) }

// writeLocked writes the pending output now. It releases the lock while it writes.
func (o *output) writeLocked() {
	p := o.pending
	o.pending, o.urgent, o.most = nil, 0, max(o.most, len(p))
	o.wakeWriterLocked()
	o.watchLocked()
	o.mu.Unlock()
	err := o.write(p)
	freeBuffer(p)
	o.mu.Lock()
	if err != nil {
		o.ender.failLocked(err)
	}
}

func (o *output) write(p []byte) error {
	defer o.watch.began.Store(0)
	for len(p) > 0 {
		o.watch.began.Store(time.Now().UnixNano())
		n, err := o.network.write(p[:min(len(p), writeSize)])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// canAppendData reports whether w may append data: there is room, the connection's window is open,
// and no other goroutine has waited longer. Headers go first: they need no window, so they never
// wait for data.
func (o *output) canAppendData(w *waiter) bool {
	return !o.isFull() && o.window > 0 && len(o.headers) == 0 && (len(o.data) == 0 || o.data[0] == w)
}

// canAppendHeader reports whether w may append a header.
func (o *output) canAppendHeader(w *waiter) bool {
	return !o.isFull() && (len(o.headers) == 0 || o.headers[0] == w)
}

// awaitHeaderTurnLocked blocks until w may append a header, need not wait any more, or the
// connection has ended. In the first case the caller appends it before it releases the lock. It
// releases the lock while it waits.
func (o *output) awaitHeaderTurnLocked(w *waiter) {
	isQueued := false
	for !w.isOver && o.err == nil && !o.canAppendHeader(w) {
		if o.canFlush() {
			o.flushLocked()
			continue
		}
		if !isQueued {
			isQueued = true
			o.headers = append(o.headers, w)
		}
		w.cond.Wait()
	}
	if isQueued {
		o.headers = remove(o.headers, w)
		o.wakeWriterLocked()
	}
}

// queueLocked adds w to the queue for data.
func (o *output) queueLocked(w *waiter) {
	if !w.isQueued {
		w.isQueued = true
		o.data = append(o.data, w)
	}
}

// unqueueLocked removes w from the queue for data, and wakes the next waiter.
func (o *output) unqueueLocked(w *waiter) {
	if w.isQueued {
		w.isQueued = false
		o.data = remove(o.data, w)
		o.wakeWriterLocked()
	}
}

func remove(queue []*waiter, w *waiter) []*waiter {
	i := slices.Index(queue, w)
	return slices.Delete(queue, i, i+1)
}

// wakeWriterLocked wakes the goroutine that has waited longest, if there is room. It wakes only
// one, however little the peer reads at once.
func (o *output) wakeWriterLocked() {
	switch {
	case o.isFull():
	case len(o.headers) > 0:
		o.headers[0].cond.Signal()
	case len(o.data) > 0 && o.window > 0:
		o.data[0].cond.Signal()
	}
}

// widenLocked opens the connection's window. It reports false if the window is then too large.
func (o *output) widenLocked(increment int) bool {
	o.window += increment
	o.wakeWriterLocked()
	return o.window <= maxConnectionWindow
}

// stopLocked ends the output. The streams of goroutines that wait with data are ended by the
// caller; goroutines that wait with headers may not have a stream yet.
func (o *output) stopLocked(err error) {
	o.err = err
	if o.watch.timer != nil {
		o.watch.timer.Stop()
	}
	for _, w := range o.headers {
		w.cond.Broadcast()
	}
}

// goAwayLocked writes a last GOAWAY after stopLocked.
func (o *output) goAwayLocked(last uint32, code http2.ErrCode) {
	o.isLingering = true
	o.pending = appendGoAway(o.buffer(), last, code)
	if !o.isWriting {
		o.isWriting = true
		go o.drain()
	}
}

// writeWatch notices a write that the peer does not take. Its timer is set once and then left alone
// as long as there is traffic, since setting it for each write would cost more than looking too
// often.
type writeWatch struct {
	timeout time.Duration
	began   atomic.Int64 // when the current write began, in nanoseconds; zero if there is none
	timer   *time.Timer
	isSet   bool
}

// watchLocked sets the timer, if it is not set.
func (o *output) watchLocked() {
	w := &o.watch
	switch {
	case w.isSet:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(w.timeout, o.checkWrite)
	default:
		w.timer.Reset(w.timeout)
	}
	w.isSet = true
}

// checkWrite ends the connection if its peer has not taken a write for the timeout.
func (o *output) checkWrite() {
	o.mu.Lock()
	defer o.mu.Unlock()
	began := o.watch.began.Load()
	switch left := o.watch.timeout - time.Since(time.Unix(0, began)); {
	case o.err != nil:
	case began == 0:
		o.watch.isSet = false
	case left > 0:
		o.watch.timer.Reset(left)
	default:
		o.ender.failLocked(errWriteStuck)
	}
}
