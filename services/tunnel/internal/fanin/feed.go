// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

// maxSharedError is the longest error that is kept for all who wait for it.
const maxSharedError = 1 << 20

// Sizes of the buffer for reading a feed: quiet feeds hold little, busy ones read much at once.
const (
	smallRead = 4 << 10
	largeRead = 32 << 10
)

// feed is one watch of a cluster.
type feed struct {
	relay   *Relay
	key     string
	version string
	opener  *viewer       // who began it
	ready   chan struct{} // closed when answer is set
	answer  answer        // not changed after that
	room    chan struct{} // holds a token when viewers have read on
	cancel  context.CancelFunc

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	history history
	reached int64  // how many of the feed's bytes its fastest viewer has read
	asked   bool   // the cluster may already be answering
	closing bool   // accepts no more viewers
	shared  bool   // it has served a viewer other than its opener
	freed   bool   // the request to the cluster has ended
	charge  func() // ends the charge for the feed while it has no viewers; nil while it has any, since each is charged itself
	ended   error  // how it ended: io.EOF when the cluster ended it
	linger  *time.Timer
}

// answer is what the cluster said. One of raw, whole and err says more; none of them means that the events follow.
type answer struct {
	res        *http.Response
	connection string
	raw        bool   // the answer is the opener's alone, and its body is the response's
	whole      []byte // the body of an error
	isError    bool
	err        error // there is no answer
}

func newFeed(r *Relay, ask question, opener *viewer) *feed {
	f := &feed{
		relay: r, key: ask.key, version: ask.version, opener: opener,
		ready: make(chan struct{}), room: make(chan struct{}, 1), viewers: map[*viewer]struct{}{opener: {}},
	}
	f.history.began = ask.after
	opener.feed = f
	return f
}

// begin asks the cluster. What is shared outlives the one who was first, so that the request does not end with his.
func (f *feed) begin(req *http.Request, open Opener) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	f.mu.Lock()
	f.cancel = cancel
	if len(f.viewers) == 0 {
		cancel()
	}
	f.mu.Unlock()
	go f.run(ctx, req.WithContext(ctx), open)
}

func (f *feed) run(ctx context.Context, req *http.Request, open Opener) {
	ended := io.EOF
	defer func() { f.end(ended) }()
	defer f.free()
	defer f.cancel()
	upstream, err := open(ctx)
	if err != nil {
		f.settle(answer{err: &OpenError{Err: err}})
		return
	}
	defer upstream.Release()
	f.mu.Lock()
	f.asked = true
	f.mu.Unlock()
	res, err := upstream.RoundTrip(req)
	if err != nil {
		f.settle(answer{err: err, connection: upstream.Connection()})
		return
	}
	defer res.Body.Close()
	got := answer{res: res, connection: upstream.Connection()}
	framing := framingOf(res)
	switch {
	case res.StatusCode >= http.StatusBadRequest:
		f.sayError(ctx, got)
	case res.StatusCode != http.StatusOK || framing == framingNone:
		f.handOver(ctx, got)
	default:
		f.history.json = framing == framingJSON
		f.settle(got)
		ended = f.read(ctx, res.Body, framing)
	}
}

// keep takes over the charge of a viewer that has left, until the feed has ended or another viewer joins: until then
// the feed still costs the cluster a watch. If the feed has ended, has a viewer or is already charged for, the charge
// ends now.
func (f *feed) keep(charge func()) {
	f.mu.Lock()
	if !f.freed && len(f.viewers) == 0 && f.charge == nil {
		f.charge, charge = charge, nil
	}
	f.mu.Unlock()
	if charge != nil {
		charge()
	}
}

// free ends the charge of a feed whose request to the cluster has ended.
func (f *feed) free() {
	f.mu.Lock()
	f.freed = true
	charge := f.takeCharge()
	f.mu.Unlock()
	charge()
}

// takeCharge returns a function that ends the feed's own charge. The caller holds the lock, and calls the function
// after releasing it.
func (f *feed) takeCharge() func() {
	charge := f.charge
	f.charge = nil
	if charge == nil {
		return func() {}
	}
	return charge
}

// settle lets all who wait go on.
func (f *feed) settle(got answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = got
	f.closing = f.closing || got.err != nil || got.raw || got.isError
	close(f.ready)
}

// sayError gives an error to all who wait for it, unless it is too long to be kept.
func (f *feed) sayError(ctx context.Context, got answer) {
	head, err := io.ReadAll(io.LimitReader(got.res.Body, maxSharedError+1))
	if err != nil || len(head) > maxSharedError || len(got.res.Trailer) > 0 {
		got.res.Body = &rejoined{Reader: io.MultiReader(bytes.NewReader(head), failing{err}, got.res.Body), Closer: got.res.Body}
		f.handOver(ctx, got)
		return
	}
	got.whole, got.isError = head, true
	f.settle(got)
}

// handOver leaves the answer to the opener and waits until he is done with it.
func (f *feed) handOver(ctx context.Context, got answer) {
	got.raw = true
	f.settle(got)
	<-ctx.Done()
}

// rejoined is a body of which something was read.
type rejoined struct {
	io.Reader
	io.Closer
}

// failing is a reader at the place where a body broke off.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// read takes the feed in until it ends, and returns how.
func (f *feed) read(ctx context.Context, body io.Reader, framing framing) error {
	cut := &splitter{framing: framing, max: f.relay.params.FrameBytes}
	buffer := make([]byte, smallRead)
	for {
		if err := f.awaitRoom(ctx); err != nil {
			return err
		}
		n, err := body.Read(buffer)
		f.take(func(emit func(entry)) {
			cut.add(buffer[:n], emit)
			if err != nil {
				cut.rest(emit)
			}
		})
		if err != nil {
			return err
		}
		f.relay.sweep()
		buffer = resize(buffer, n)
	}
}

func resize(buffer []byte, n int) []byte {
	switch {
	case n == len(buffer) && n < largeRead:
		return make([]byte, largeRead)
	case n < smallRead && len(buffer) > smallRead:
		return make([]byte, smallRead)
	}
	return buffer
}

// take appends what is emitted to the history and wakes the viewers.
func (f *feed) take(cut func(emit func(entry))) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, bytes := f.history.next(), f.history.bytes
	cut(func(e entry) {
		e.age = f.relay.trims.Add(1)
		f.history.append(e)
	})
	f.relay.bytes.Add(int64(f.history.bytes - bytes))
	if f.history.next() == before {
		return
	}
	f.trimOwn()
	f.wake()
}

// trimOwn keeps the history within its bounds, an eighth below so that it is not due at once again. The fastest viewer
// loses nothing: the feed is not read so far ahead of it. The lock is held.
func (f *feed) trimOwn() {
	p := f.relay.params
	if f.history.bytes <= p.HistoryBytes && len(f.history.entries) <= p.HistoryEvents {
		return
	}
	n, cost := 0, f.history.bytes
	for n < len(f.history.entries) && f.mayGo(n, true) &&
		(cost > p.HistoryBytes-p.HistoryBytes/8 || len(f.history.entries)-n > p.HistoryEvents-p.HistoryEvents/8) {
		cost -= f.history.entries[n].cost()
		n++
	}
	f.relay.bytes.Add(-int64(f.history.drop(n)))
}

// mayGo says whether an entry may be trimmed: when all viewers have read it, or, if what is needed may go, when one has.
// The lock is held.
func (f *feed) mayGo(i int, needed bool) bool {
	e := &f.history.entries[i]
	if e.offset+int64(len(e.data)) > f.reached {
		return false
	}
	return needed || f.history.first+int64(i) < f.slowest()
}

// slowest is the number of the first entry that some viewer has not read. The lock is held.
func (f *feed) slowest() int64 {
	slowest := f.history.next()
	for v := range f.viewers {
		slowest = min(slowest, v.next)
	}
	return slowest
}

// oldest returns the age of the oldest entry that may go.
func (f *feed) oldest(needed bool) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.history.entries) == 0 || !f.mayGo(0, needed) {
		return math.MaxInt64
	}
	return f.history.entries[0].age
}

// trim drops entries that are not younger than until, while the relay has more than the target. It returns the age of the
// next entry that may go.
func (f *feed) trim(needed bool, until, target int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	slowest, excess := f.slowest(), f.relay.bytes.Load()-target
	n, cost := 0, int64(0)
	for ; n < len(f.history.entries) && cost < excess; n++ {
		e := &f.history.entries[n]
		behind := e.offset+int64(len(e.data)) <= f.reached && (needed || f.history.first+int64(n) < slowest)
		if !behind || e.age > until {
			break
		}
		cost += int64(e.cost())
	}
	f.relay.bytes.Add(-int64(f.history.drop(n)))
	if len(f.history.entries) == 0 || !f.mayGo(0, needed) {
		return math.MaxInt64
	}
	return f.history.entries[0].age
}

// awaitRoom waits until the feed is no more than the window ahead of its fastest viewer.
func (f *feed) awaitRoom(ctx context.Context) error {
	for {
		f.mu.Lock()
		ahead := f.history.appended - f.reached
		f.mu.Unlock()
		if ahead < int64(f.relay.params.Ahead) {
			return nil
		}
		select {
		case <-f.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// advance notes how far a viewer has read. The lock is held.
func (f *feed) advance(position int64) {
	if position <= f.reached {
		return
	}
	f.reached = position
	select {
	case f.room <- struct{}{}:
	default:
	}
}

// end tells all viewers how the feed ended. They read what is left first.
func (f *feed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.closing = err, true
	f.wake()
	f.forgetUnread()
}

// wake lets viewers that wait look again. The lock is held.
func (f *feed) wake() {
	for v := range f.viewers {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
}

// join makes a viewer one of this feed's if it can be served. While nobody knows that yet, patient viewers wait with it.
func (f *feed) join(ask question, v *viewer, patient bool) bool {
	charge := func() {}
	defer func() { charge() }()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing || f.asked && ask.wantsNewest() {
		return false
	}
	select {
	case <-f.ready:
		if !f.place(ask, v) {
			return false
		}
	default:
		if ask.version != f.version && (!patient || ask.after == 0) {
			return false
		}
	}
	f.stopLinger()
	charge = f.takeCharge()
	f.viewers[v] = struct{}{}
	v.feed = f
	return true
}

// place says where the viewer begins to read. The lock is held.
func (f *feed) place(ask question, v *viewer) bool {
	if ask.version == f.version && f.history.first == 0 {
		v.next, v.after, v.placed = 0, 0, true
		return true
	}
	v.next, v.placed = f.history.seek(ask.after)
	v.after = ask.after
	if v.placed && v.next == f.history.next() {
		f.advance(f.history.appended)
	}
	return v.placed
}

// handOn makes a viewer that has read everything up to a version one of an earlier feed's, if that can serve it. This feed ends with its last
// one.
func (f *feed) handOn(v *viewer, to *feed, after uint64) bool {
	charge := func() {}
	defer func() { charge() }()
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, here := f.viewers[v]; !here {
		return false
	}
	var adopted bool
	if charge, adopted = to.adopt(v, after); !adopted {
		return false
	}
	delete(f.viewers, v)
	if len(f.viewers) == 0 {
		f.forgetUnread()
		f.stop()
	}
	return true
}

// adopt makes the viewer read this feed from after a version, if the history covers it. The caller holds the lock of
// the viewer's feed, which is a later one: the locks of two feeds are always acquired in this order. The returned
// function ends the feed's own charge; the caller calls it without a lock.
func (f *feed) adopt(v *viewer, after uint64) (charge func(), adopted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.ready:
	default:
		return func() {}, false
	}
	next, ok := f.history.seek(after)
	if f.closing || !ok {
		return func() {}, false
	}
	v.feed, v.next, v.after = f, next, after
	if next == f.history.next() {
		f.advance(f.history.appended)
	}
	f.stopLinger()
	f.shared = true
	f.viewers[v] = struct{}{}
	return f.takeCharge(), true
}

// leave removes a viewer. When the last viewer leaves, the feed ends: at once, or after a while if it was shared, since
// it is then likely to be shared again.
func (f *feed) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, here := f.viewers[v]; !here {
		return
	}
	delete(f.viewers, v)
	if v.begun {
		f.relay.viewers.Add(-1)
	}
	if len(f.viewers) > 0 && (!f.answer.raw || v != f.opener) {
		return
	}
	if f.forgetUnread(); f.ended != nil {
		return
	}
	live := false
	select {
	case <-f.ready:
		live = !f.closing
	default:
	}
	if !live || !f.shared || f.relay.isDraining() {
		f.stop()
		return
	}
	f.linger = time.AfterFunc(f.relay.params.Linger, f.endUnwatched)
}

// forgetUnread frees a feed that has ended and that nobody reads. The lock is held.
func (f *feed) forgetUnread() {
	if f.ended != nil && len(f.viewers) == 0 {
		f.relay.forget(f)
		f.relay.bytes.Add(-int64(f.history.drop(len(f.history.entries))))
	}
}

// endUnwatched ends the feed if it has no viewers.
func (f *feed) endUnwatched() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.viewers) == 0 {
		f.stop()
	}
}

// stop ends the watch of the cluster. The lock is held.
func (f *feed) stop() {
	f.closing = true
	f.stopLinger()
	if f.cancel != nil {
		f.cancel()
	}
}

// stopLinger forgets that the feed was to end. The lock is held.
func (f *feed) stopLinger() {
	if f.linger != nil {
		f.linger.Stop()
		f.linger = nil
	}
}
