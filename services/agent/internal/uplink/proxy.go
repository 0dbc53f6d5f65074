// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// errAnswered ends the rest of a request whose answer is complete, and errStalled one whose caller
// does not read the answer.
var (
	errAnswered = errors.New("request was answered")
	errStalled  = errors.New("caller does not read the answer")
)

// proxy passes requests on to one server, each kind over connections of its own.
type proxy struct {
	server

	lanes lanes
	// stall is how long a caller may read nothing of an answer.
	stall time.Duration
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lane := p.lanes.pick(r)
	if !lane.enter() {
		problem{
			code: http.StatusTooManyRequests, kubeReason: "TooManyRequests", reason: "RATE_LIMITED", retryAfter: 1,
			message: "the agent carries as many requests of this kind as it can; retry when one has ended",
		}.write(w, r)
		return
	}
	defer lane.leave()
	if lane == p.lanes.upgrade {
		p.upgrade(lane.transport, w, r)
		return
	}
	p.pass(lane, w, r)
}

// pass forwards a request that has an answer.
func (p *proxy) pass(lane *lane, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// A stalled reader occupies one of the server's streams.
	guarded := serve.GuardStalls(serve.AsItIs(w), p.stall, func() { cancel(errStalled) })
	defer guarded.Stop()
	wait := &silence{timeouts: p.silences, end: func() { cancel(errSilent) }}
	defer wait.over()
	req := r.WithContext(ctx)
	if p.mayBeSilent(lane, r) {
		wait.answered = true
	} else {
		req.Body = wait.during(r)
	}
	proxy := p.answer(lane.transport)
	proxy.ModifyResponse = func(res *http.Response) error {
		wait.over()
		p.passOn(res.Header)
		res.Body = &answer{ReadCloser: res.Body, cancel: func() { cancel(errAnswered) }}
		return nil
	}
	proxy.ServeHTTP(&hints{ResponseWriter: guarded, tooMany: func() { cancel(errHints) }}, req)
}

// maxHints is how many informational answers a server may send before the final one. The client of
// net/http does not bound them if its caller asks to be notified of them.
const maxHints = 32

// hints ends a request whose server sends more than maxHints informational answers.
type hints struct {
	http.ResponseWriter

	seen    int
	tooMany func()
}

// WriteHeader implements http.ResponseWriter.
func (h *hints) WriteHeader(status int) {
	if status < http.StatusOK {
		if h.seen++; h.seen > maxHints {
			h.tooMany()
			return
		}
	}
	h.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the server's own writer for http.ResponseController.
func (h *hints) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// mayBeSilent reports whether the answer may begin at any time. That applies to a followed log, and
// to answers of another server behind the API server.
func (p *proxy) mayBeSilent(lane *lane, r *http.Request) bool {
	return p.silences == nil || lane == p.lanes.endless && !isTrue(r.URL.Query(), "watch") ||
		strings.Contains(r.URL.Path+"/", "/proxy/")
}

// answer is a response's body. With HTTP/2, closing it waits until the request's body has been
// sent. After an early answer, such as a 413, it would wait for a caller that has stopped sending
// because of it. So Close ends the request first.
type answer struct {
	io.ReadCloser

	cancel func()
}

// Close implements io.Closer.
func (a *answer) Close() error {
	a.cancel()
	return a.ReadCloser.Close()
}

// silence measures how long a server takes to begin its answer after it has received the whole
// request.
type silence struct {
	timeouts *timeouts.Queue
	end      func()

	mu       sync.Mutex
	wait     *timeouts.Entry
	answered bool
}

// during returns the request's body, at whose end the wait begins. A server of HTTP/2 also sets a
// body on a request without one, which is never read.
func (s *silence) during(r *http.Request) io.ReadCloser {
	if r.ContentLength == 0 {
		s.begin()
		return r.Body
	}
	return &sentBody{ReadCloser: r.Body, sent: s.begin}
}

func (s *silence) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait == nil && !s.answered {
		s.wait = s.timeouts.Add(s.end)
	}
}

func (s *silence) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	if s.wait != nil {
		s.wait.Stop()
	}
}

// sentBody calls sent when it has been read to its end.
type sentBody struct {
	io.ReadCloser

	sent func()
}

// WriteTo implements io.WriterTo if the body does.
func (b *sentBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, b.ReadCloser)
	if err == nil {
		b.sent()
	}
	return n, err
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.sent()
	}
	return n, err
}
