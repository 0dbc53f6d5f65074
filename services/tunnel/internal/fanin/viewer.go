// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errBehind ends a viewer that lost the rest of an event that it has begun to read.
var errBehind = errors.New("viewer fell behind in the middle of an event")

// Watch carries one viewer's request. RoundTrip is called once; Release must be called at the end.
type Watch struct {
	relay *Relay
	scope string
	open  Opener
	// charge ends the viewer's charge for the watch. It is called once.
	charge func()

	mu         sync.Mutex
	viewer     *viewer
	upstream   Upstream // of a request that is not shared
	connection string
}

// RoundTrip implements http.RoundTripper. The error is an [*OpenError] when nothing was sent, and otherwise what the
// upstream's transport says.
func (w *Watch) RoundTrip(req *http.Request) (*http.Response, error) {
	question, ok := ask(w.scope, req)
	if !ok {
		return w.alone(req)
	}
	for patient := true; ; patient = false {
		res, retry, err := w.share(req, question, patient)
		if retry == nil {
			return res, err
		}
		if errors.Is(retry, errNotShareable) {
			return w.alone(req)
		}
	}
}

// Why a viewer has to look for another feed than the one that it waited for.
var (
	errNotShareable = errors.New("answer is not shareable")
	errNotServable  = errors.New("feed does not serve this version")
)

// share joins a feed and waits for the cluster's answer. An error in retry means that it does not fit this viewer.
func (w *Watch) share(req *http.Request, question question, patient bool) (res *http.Response, retry, err error) {
	ctx := req.Context()
	v := newViewer(ctx)
	w.keep(v)
	f := w.relay.join(upstreamRequest(req, question), question, v, patient, w.open)
	select {
	case <-f.ready:
	case <-ctx.Done():
		v.leave()
		return nil, nil, ctx.Err()
	}
	if res, retry, err = f.respond(req, question, v); retry != nil || err != nil {
		v.leave()
		return nil, retry, err
	}
	w.setConnection(f.answer.connection)
	return res, nil, nil
}

// upstreamRequest is what the cluster is asked: it must not end the watch when one viewer wants that.
func upstreamRequest(req *http.Request, question question) *http.Request {
	out := req.Clone(req.Context())
	out.URL.RawQuery = question.query
	return out
}

// respond makes the viewer's response of the feed's answer.
func (f *feed) respond(req *http.Request, question question, v *viewer) (res *http.Response, retry, err error) {
	got := f.answer
	own := v == f.opener || question.version == f.version
	switch {
	case got.raw && v == f.opener:
		context.AfterFunc(req.Context(), f.cancel)
		return got.response(req, got.res.Body), nil, nil
	case got.raw:
		return nil, errNotShareable, nil
	case !own && (got.err != nil || got.isError):
		return nil, errNotServable, nil // it is the answer to another question
	case got.err != nil:
		return nil, nil, got.err
	case got.isError:
		res = got.response(req, io.NopCloser(bytes.NewReader(got.whole)))
		res.ContentLength = int64(len(got.whole))
		v.leave()
		return res, nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !v.placed && !f.place(question, v) {
		return nil, errNotServable, nil
	}
	v.begin(question)
	if v != f.opener {
		f.shared = true
		v.shares()
	}
	return got.response(req, v), nil, nil
}

func (a answer) response(req *http.Request, body io.ReadCloser) *http.Response {
	res := *a.res
	res.Header, res.Body, res.Request = a.res.Header.Clone(), body, req
	return &res
}

// alone sends the request without sharing it.
func (w *Watch) alone(req *http.Request) (*http.Response, error) {
	upstream, err := w.open(req.Context())
	if err != nil {
		return nil, &OpenError{Err: err}
	}
	w.mu.Lock()
	w.upstream = upstream
	w.mu.Unlock()
	return upstream.RoundTrip(req)
}

func (w *Watch) keep(v *viewer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.viewer = v
}

func (w *Watch) setConnection(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connection = id
}

// Connection is the id of the agent's connection that carries the watch. It is empty before there is an answer.
func (w *Watch) Connection() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.upstream != nil {
		return w.upstream.Connection()
	}
	return w.connection
}

// Release ends the viewer's part, if its body was not closed, and gives back what it holds. It may be called twice.
func (w *Watch) Release() {
	w.mu.Lock()
	v, upstream, charge := w.viewer, w.upstream, w.charge
	w.viewer, w.upstream, w.charge = nil, nil, nil
	w.mu.Unlock()
	if upstream != nil {
		upstream.Release()
	}
	switch {
	case charge == nil: // already released
	case v != nil:
		v.leave().keep(charge)
	default:
		charge()
	}
}

// viewer is the body of one viewer's response. The feed's lock protects its place. Read is called by one goroutine.
type viewer struct {
	moving sync.Mutex // held while the viewer leaves its feed for another one, or for good. It is taken before a feed's
	feed   *feed

	next   int64  // the entry that it reads next
	after  uint64 // leaves out events up to this version, until the first later one; zero leaves out none
	placed bool

	done  <-chan struct{} // of the viewer's request
	cause func() error
	wake  chan struct{} // holds a token when there is something to read
	timer *time.Timer   // nil without a timeout
	due   <-chan time.Time

	lists  bool   // it asked for a streamed list
	listed bool   // it has seen the end of that
	seen   uint64 // the version of the bookmark behind the list that it has just read; zero otherwise
	open   bool   // the line of that bookmark has no end yet

	begun   bool   // it has a response
	shared  bool   // it is counted among those that share
	expired bool   // its timeout is over
	behind  bool   // it has lost entries
	part    bool   // a frame was begun of which the next entry is the rest
	rest    []byte // of the entry that it reads
}

func newViewer(ctx context.Context) *viewer {
	return &viewer{
		done: ctx.Done(), cause: func() error { return context.Cause(ctx) }, wake: make(chan struct{}, 1),
	}
}

// begin makes the viewer count and starts its own timeout. The feed's lock is held.
func (v *viewer) begin(ask question) {
	v.begun, v.lists = true, ask.streamed
	v.feed.relay.viewers.Add(1)
	if ask.timeout > 0 {
		v.timer = time.NewTimer(ask.timeout)
		v.due = v.timer.C
	}
}

// shares counts the viewer among those that share, once.
func (v *viewer) shares() {
	if !v.shared {
		v.shared = true
		v.feed.relay.joined.Add(1)
	}
}

// leave removes the viewer from its feed, and returns that feed. It may be called more than once.
func (v *viewer) leave() *feed {
	if v.timer != nil {
		v.timer.Stop()
	}
	v.moving.Lock()
	defer v.moving.Unlock()
	v.feed.leave(v)
	return v.feed
}

// moveOn has the viewer, who has seen the whole state of his time, go on in an earlier feed that can serve it from here. Where none can yet,
// because it is still at its own list, the next bookmark is another chance: so those who come together end up together.
func (v *viewer) moveOn() {
	after := v.seen
	v.seen = 0
	v.moving.Lock()
	defer v.moving.Unlock()
	own := v.feed
	for _, f := range own.relay.before(own) {
		if own.handOn(v, f, after) {
			v.shares()
			if v.open {
				v.rest = []byte("\n") // the one in its own feed may be still to come
			}
			return
		}
	}
}

// Close implements io.Closer.
func (v *viewer) Close() error {
	v.leave()
	return nil
}

// Read implements io.Reader. It returns as soon as there is something.
func (v *viewer) Read(p []byte) (int, error) {
	for {
		if n, err := v.fill(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-v.wake:
		case <-v.done:
		case <-v.due:
			v.expired = true
		}
	}
}

// fill copies what there is. It ends the viewer between two events only, if it can.
func (v *viewer) fill(p []byte) (n int, err error) {
	select {
	case <-v.done:
		return 0, v.cause()
	case <-v.due:
		v.expired = true
	default:
	}
	if v.seen > 0 && len(v.rest) == 0 {
		v.moveOn()
	}
	v.feed.mu.Lock()
	defer v.feed.mu.Unlock()
	for n < len(p) && err == nil {
		if len(v.rest) == 0 {
			if v.seen > 0 {
				break // it is to move on first
			}
			if v.rest, err = v.take(); len(v.rest) == 0 {
				break
			}
		}
		copied := copy(p[n:], v.rest)
		v.rest = v.rest[copied:]
		n += copied
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// take returns the next entry, nothing when there is none yet, and an error when there will be none. The feed's lock is
// held.
func (v *viewer) take() ([]byte, error) {
	f := v.feed
	for {
		switch {
		case v.expired && !v.part:
			return nil, io.EOF
		case v.next < f.history.first:
			return nil, v.fallBehind()
		case v.next == f.history.next():
			return nil, f.ended
		}
		e := f.history.at(v.next)
		v.next++
		f.advance(e.offset + int64(len(e.data)))
		if !v.leavesOut(e) {
			v.part = e.more
			v.look(e)
			return e.data, nil
		}
	}
}

// look finds where the viewer can move on: at the end of its list, and at the bookmarks behind that, which all say up to which version nothing
// is missing (KEP-956).
func (v *viewer) look(e *entry) {
	if !v.lists || !v.feed.history.json || !mayBeBookmark(e.data) {
		return
	}
	event, ok := e.parse()
	if !ok || event.kind != kindBookmark {
		return
	}
	if v.listed = v.listed || event.listed; v.listed {
		v.seen, v.open = event.version, !bytes.HasSuffix(e.data, []byte("\n"))
	}
}

// fallBehind ends the viewer: as API servers end a watch, unless it has half an event.
func (v *viewer) fallBehind() error {
	if !v.behind {
		v.behind = true
		v.feed.relay.lagged.Add(1)
	}
	if v.part {
		return errBehind
	}
	return io.EOF
}

// leavesOut knows what the viewer has seen before it began.
func (v *viewer) leavesOut(e *entry) bool {
	if v.after == 0 {
		return false
	}
	if e.filler {
		return true
	}
	event, ok := e.parse()
	if !ok || event.kind == kindError {
		return false
	}
	if event.version > v.after {
		v.after = 0 // all later ones are later
		return false
	}
	return true
}
