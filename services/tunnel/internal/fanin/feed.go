// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
)

// feed is one watch of a cluster. Its fields up to mu never change.
type feed struct {
	params  *Params
	tally   *tally
	version string
	opener  *cursor            // of the viewer that began the feed
	cancel  context.CancelFunc // ends the request to the cluster
	ready   chan struct{}      // closed when answer is set
	unread  chan struct{}      // closed when the feed has ended and has no reader any more
	room    wake.Signal        // holds a token when viewers have read on

	mu          sync.Mutex
	answer      answer // readable without the lock once ready is closed
	history     history
	isAsked     bool   // the cluster may already be answering
	isClosing   bool   // accepts no more viewers
	isAbandoned bool   // all viewers have left before the answer
	isShared    bool   // it has served a viewer other than its opener
	isReleased  bool   // the request to the cluster has ended
	endCharge   func() // ends the feed's own charge; nil while it has none
	ended       error  // how it ended: io.EOF if the cluster ended it; nil before that
	linger      *time.Timer
}

// answer is the cluster's. If none of isOpeners, isError and err is set, events follow.
type answer struct {
	res        *http.Response
	connection string
	isOpeners  bool   // the answer, with its body, belongs to the opener alone
	isError    bool   // the answer is an HTTP error
	errorBody  []byte // the whole body of that
	err        error  // there is no answer
}

// newFeed returns a waiting feed with one viewer. The function cancel ends its request.
func newFeed(params *Params, tally *tally, q question, opener *cursor, cancel context.CancelFunc) *feed {
	return &feed{
		params: params, tally: tally, version: q.version, opener: opener, cancel: cancel,
		ready: make(chan struct{}), unread: make(chan struct{}), room: wake.NewSignal(),
		history: history{began: q.after, cursors: map[*cursor]struct{}{opener: {}}},
	}
}

// markAsked closes the feed to viewers that want the newest state. The request is sent after that.
func (f *feed) markAsked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isAsked = true
}

// setAnswer wakes all viewers that wait for the answer.
func (f *feed) setAnswer(a answer, isJSON bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer, f.history.isJSON = a, isJSON
	f.isClosing = f.isClosing || a.err != nil || a.isOpeners || a.isError
	close(f.ready)
}

// isAnswered reports whether the answer is set.
func (f *feed) isAnswered() bool { return wake.IsClosed(f.ready) }

// admit makes the cursor one of the feed's, if the feed serves the question. Otherwise it reports
// whether the feed may do so once it has its answer. The charge for a feed that had no viewers ends
// here: the new viewer is charged for it.
func (f *feed) admit(q question, c *cursor) (isAdmitted, isPending bool) {
	f.mu.Lock()
	isAnswered, isSameVersion := f.isAnswered(), q.version == f.version
	switch {
	case f.isClosing || f.isAsked && q.wantsNewest():
	case isAnswered:
		isAdmitted = f.history.place(c, isSameVersion, q.after)
	default:
		isAdmitted, isPending = isSameVersion, !isSameVersion && q.after > 0
	}
	var charge func()
	if isAdmitted {
		f.history.cursors[c] = struct{}{}
		charge = f.takeChargeLocked()
		f.stopLingerLocked()
		f.offerRoom() // the viewer may be the fastest
	}
	f.mu.Unlock()
	if charge != nil {
		charge()
	}
	return isAdmitted, isPending
}

// leave removes a cursor, and reports whether it was still there. When the last one leaves, the
// feed ends: at once, or after a while if it was shared, since it is then likely to be shared
// again.
func (f *feed) leave(c *cursor) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, isHere := f.history.cursors[c]; !isHere {
		return false
	}
	delete(f.history.cursors, c)
	switch {
	case len(f.history.cursors) > 0 && (!f.answer.isOpeners || c != f.opener):
	case f.ended != nil:
		f.forgetUnreadLocked()
	case f.isAnswered() && f.isShared && !f.isClosing && !f.tally.draining.Load():
		f.linger = time.AfterFunc(f.params.Linger, f.endUnwatched)
	default:
		f.isAbandoned = !f.isAnswered()
		f.stopLocked()
	}
	return true
}

// wasAbandoned reports whether all viewers have left before the cluster answered.
func (f *feed) wasAbandoned() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isAbandoned
}

// keepCharge takes over the charge of a viewer that has left, until the feed's request has ended or
// another viewer joins: until then the feed still costs the cluster a watch. If the feed has ended,
// has a viewer or is already charged for, the charge ends now.
func (f *feed) keepCharge(end func()) {
	f.mu.Lock()
	if !f.isReleased && len(f.history.cursors) == 0 && f.endCharge == nil {
		f.endCharge, end = end, nil
	}
	f.mu.Unlock()
	if end != nil {
		end()
	}
}

// release ends the charge of a feed whose request to the cluster has ended.
func (f *feed) release() {
	f.mu.Lock()
	f.isReleased = true
	charge := f.takeChargeLocked()
	f.mu.Unlock()
	if charge != nil {
		charge()
	}
}

// takeChargeLocked returns the function that ends the feed's own charge, or nil. The caller calls
// it after releasing the lock.
func (f *feed) takeChargeLocked() func() {
	charge := f.endCharge
	f.endCharge = nil
	return charge
}

// record appends the entries that cut emits to the history and wakes the viewers.
func (f *feed) record(cut func(emit func(entry))) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end, bytes := f.history.end(), f.history.bytes
	cut(func(e entry) {
		e.age = f.tally.entries.Add(1)
		f.history.append(e)
	})
	if f.history.end() == end {
		return
	}
	f.history.trim(f.params.HistoryBytes, f.params.HistoryEvents)
	f.tally.bytes.Add(int64(f.history.bytes - bytes))
	f.wakeLocked()
}

// awaitRoom blocks until the feed is less than the window ahead of its fastest viewer.
func (f *feed) awaitRoom(ctx context.Context) error {
	for {
		f.mu.Lock()
		ahead := f.history.appended - f.history.reached
		f.mu.Unlock()
		if ahead < int64(f.params.Ahead) {
			return nil
		}
		select {
		case <-f.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// offerRoom makes awaitRoom look again.
func (f *feed) offerRoom() { f.room.Set() }

// droppable appends the entries that may go to list, with their costs and ages only.
func (f *feed) droppable(list []dropped, unread bool) []dropped {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.history.droppable(unread) {
		list = append(list, dropped{age: e.age, cost: int64(e.cost())})
	}
	return list
}

// dropped is an entry that may be dropped.
type dropped struct{ age, cost int64 }

// dropUntil drops the entries that may go and are not younger than age.
func (f *feed) dropUntil(age int64, unread bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bytes := f.history.bytes
	f.history.dropUntil(age, unread)
	f.tally.bytes.Add(int64(f.history.bytes - bytes))
}

// end sets how the feed ended. Viewers read the rest of the history before they see it.
func (f *feed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.isClosing = err, true
	f.wakeLocked()
	f.forgetUnreadLocked()
}

// wakeLocked makes all viewers that wait look again.
func (f *feed) wakeLocked() {
	for c := range f.history.cursors {
		c.wake.Set()
	}
}

// forgetUnreadLocked frees the history of a feed that has ended and has no reader. That happens
// once, since viewers do not join a feed that has ended.
func (f *feed) forgetUnreadLocked() {
	if f.ended != nil && len(f.history.cursors) == 0 {
		f.tally.bytes.Add(-int64(f.history.bytes))
		f.history.drop(len(f.history.entries))
		close(f.unread)
	}
}

// endUnwatched ends the feed if it has no viewers.
func (f *feed) endUnwatched() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.history.cursors) == 0 {
		f.stopLocked()
	}
}

// stopLocked ends the request to the cluster.
func (f *feed) stopLocked() {
	f.isClosing = true
	f.stopLingerLocked()
	f.cancel()
}

func (f *feed) stopLingerLocked() {
	if f.linger != nil {
		f.linger.Stop()
		f.linger = nil
	}
}
