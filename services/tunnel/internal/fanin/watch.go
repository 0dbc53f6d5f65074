// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// Watch carries one viewer's request. RoundTrip is called once; Release must be called at the end.
type Watch struct {
	relay *Relay
	scope string
	open  Opener

	mu         sync.Mutex
	endCharge  func()   // nil once it was called or handed to the feed
	viewer     *viewer  // of a request that is shared
	upstream   Upstream // of a request that is not
	connection string
}

// Watch returns the transport for one viewer's watch of a cluster. The scope identifies the
// cluster, even if two clusters share a name. The opener is called if the viewer needs its own
// watch. The viewer is already charged for the watch, and charge ends that. It is called once, when
// the watch is released. If the viewer leaves behind a feed for which no other viewer is charged,
// it is called later.
func (r *Relay) Watch(scope string, open Opener, charge func()) *Watch {
	return &Watch{relay: r, scope: scope, open: open, endCharge: charge}
}

// RoundTrip implements http.RoundTripper. The error is an [*OpenError] if nothing was sent, and
// otherwise the error of the upstream's transport or of the request's context.
func (w *Watch) RoundTrip(req *http.Request) (*http.Response, error) {
	q, ok := ask(w.scope, req)
	if !ok {
		return w.alone(req)
	}
	ctx, c := req.Context(), newCursor()
	f, err := w.relay.join(req, q, c, w.open)
	if err != nil {
		return nil, err
	}
	v := newViewer(ctx, f, c)
	w.setViewer(v, "")
	select {
	case <-f.ready:
	case <-ctx.Done():
		v.leave()
		return nil, ctx.Err()
	}
	if f.answer.isOpeners && c != f.opener {
		v.leave()
		w.setViewer(nil, "")
		return w.alone(req)
	}
	w.setViewer(v, f.answer.connection)
	return v.respond(req, q)
}

// respond makes the viewer's response of the feed's answer.
func (v *viewer) respond(req *http.Request, q question) (*http.Response, error) {
	a := v.feed.answer
	if a.err != nil {
		v.leave()
		return nil, a.err
	}
	res := *a.res
	res.Header, res.Request = a.res.Header.Clone(), req
	switch {
	case a.isOpeners:
		context.AfterFunc(req.Context(), v.feed.cancel)
	case a.isError:
		v.leave()
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(a.errorBody)), int64(len(a.errorBody))
	default:
		v.begin(q)
		res.Body = v
	}
	return &res, nil
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

func (w *Watch) setViewer(v *viewer, connection string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.viewer, w.connection = v, connection
}

// Connection is the id of the agent's connection that carries the watch. It is empty before there
// is an answer.
func (w *Watch) Connection() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.upstream != nil {
		return w.upstream.Connection()
	}
	return w.connection
}

// Release ends the viewer's part, if its body was not closed, and gives back what it holds. It may
// be called twice.
func (w *Watch) Release() {
	w.mu.Lock()
	v, upstream, charge := w.viewer, w.upstream, w.endCharge
	w.viewer, w.upstream, w.endCharge = nil, nil, nil
	w.mu.Unlock()
	if upstream != nil {
		upstream.Release()
	}
	switch {
	case charge == nil: // already released
	case v != nil:
		v.leave()
		v.feed.keepCharge(charge)
	default:
		charge()
	}
}
