// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"context"
	"errors"
	"io"
	"time"
)

// errBehind ends a viewer that lost the rest of an event that it had begun to read.
var errBehind = errors.New("viewer fell behind in the middle of an event")

// viewer is the body of one viewer's response. One goroutine reads it; any may close it.
type viewer struct {
	feed   *feed
	cursor *cursor
	done   <-chan struct{} // closed at the end of the viewer's request
	cause  func() error    // why that ended

	isCounted bool             // among the relay's viewers
	timer     *time.Timer      // nil without a timeout
	expiry    <-chan time.Time // of the timer

	isExpired  bool   // its timeout is over
	isBehind   bool   // it has lost entries
	isMidFrame bool   // the next entry continues a frame
	rest       []byte // of the entry that it reads
}

func newViewer(ctx context.Context, f *feed, c *cursor) *viewer {
	return &viewer{feed: f, cursor: c, done: ctx.Done(), cause: func() error { return context.Cause(ctx) }}
}

// begin counts the viewer and starts its own timeout. Its response may be read from now on.
func (v *viewer) begin(q question) {
	f := v.feed
	v.isCounted = true
	f.tally.viewers.Add(1)
	if v.cursor != f.opener {
		f.tally.shared.Add(1)
		f.mu.Lock()
		f.isShared = true
		f.mu.Unlock()
	}
	if q.timeout > 0 {
		v.timer = time.NewTimer(q.timeout)
		v.expiry = v.timer.C
	}
}

// leave removes the viewer from its feed. It may be called more than once.
func (v *viewer) leave() {
	if v.timer != nil {
		v.timer.Stop()
	}
	if v.feed.leave(v.cursor) && v.isCounted {
		v.feed.tally.viewers.Add(-1)
	}
}

// Close implements io.Closer.
func (v *viewer) Close() error {
	v.leave()
	return nil
}

// Read implements io.Reader. It returns as soon as there is something to read.
func (v *viewer) Read(p []byte) (int, error) {
	for {
		if n, err := v.fill(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-v.cursor.wake:
		case <-v.done:
		case <-v.expiry:
			v.isExpired = true
		}
	}
}

// fill copies as many entries as there are and p holds.
func (v *viewer) fill(p []byte) (n int, err error) {
	select {
	case <-v.done:
		return 0, v.cause()
	case <-v.expiry:
		v.isExpired = true
	default:
	}
	v.feed.mu.Lock()
	defer v.feed.mu.Unlock()
	for n < len(p) {
		if len(v.rest) == 0 {
			if v.rest, err = v.nextLocked(); len(v.rest) == 0 {
				break
			}
		}
		copied := copy(p[n:], v.rest)
		v.rest = v.rest[copied:]
		n += copied
	}
	v.feed.offerRoom() // even if the viewer has only skipped entries
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// nextLocked returns the next entry, nothing if there is none yet, and an error if there will be
// none. The timeout and the end of the history end the viewer between two events, if possible.
func (v *viewer) nextLocked() ([]byte, error) {
	f := v.feed
	switch {
	case v.isExpired && !v.isMidFrame:
		return nil, io.EOF
	case f.history.isBehind(v.cursor):
		return nil, v.fallBehind()
	}
	e := f.history.read(v.cursor)
	if e == nil {
		return nil, f.ended
	}
	v.isMidFrame = e.continues
	return e.data, nil
}

// fallBehind ends the viewer as API servers end a watch, unless it has half an event.
func (v *viewer) fallBehind() error {
	if !v.isBehind {
		v.isBehind = true
		v.feed.tally.lagged.Add(1)
	}
	if v.isMidFrame {
		return errBehind
	}
	return io.EOF
}
