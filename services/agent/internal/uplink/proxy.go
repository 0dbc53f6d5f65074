// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/timeouts"
)

const (
	// dialTimeout bounds connecting to a server, TLS included.
	dialTimeout = 10 * time.Second
	// answerTimeout is longer than an API server takes to give a request up by itself.
	answerTimeout = 2 * time.Minute
	// stallTimeout is longer than any pause of a reader that means to go on.
	stallTimeout = 2 * time.Minute
)

var (
	// errSilent ends a request that the server has taken and does not answer.
	errSilent = errors.New("server does not answer")
	// errStalled ends a request whose caller takes nothing of the answer.
	errStalled = errors.New("caller takes no byte of the answer")
	// errHints ends a request whose server sends too many informational answers.
	errHints = errors.New("server gives too many informational answers")
	// errAnswered ends what is left of a request whose answer is complete.
	errAnswered = errors.New("request is answered")
)

// proxy passes requests on to one server.
type proxy struct {
	// name is the server's in messages.
	name string
	// base is its URL, and prefix begins the paths that are for it.
	base   *url.URL
	prefix string
	legs   legs
	// silences ends requests that it takes too long to answer; nil: it may take as long as it likes. Stall is how long a caller may take
	// no byte of an answer.
	silences *timeouts.Queue
	stall    time.Duration
	// scrub removes headers that the server must not see.
	scrub func(http.Header)
	// tidy removes what the server must not say. Nil: it may say everything.
	tidy     func(http.Header)
	buffers  *serve.CopyBuffers
	logger   *slog.Logger
	errorLog *log.Logger
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	leg := p.legs.pick(r)
	if !leg.enter() {
		problem{
			code: http.StatusTooManyRequests, kubeReason: "TooManyRequests", reason: "RATE_LIMITED", retryAfter: 1,
			message: "the agent carries as many requests of this kind as it can; retry when one has ended",
		}.write(w, r)
		return
	}
	defer leg.leave()
	if leg == p.legs.upgrade {
		p.upgrade(w, r)
		return
	}
	p.pass(leg, w, r)
}

// pass carries a request that has an answer.
func (p *proxy) pass(leg *leg, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// A reader that stands still holds one of the server's seats.
	guarded := serve.GuardStalls(serve.AsItIs(w), p.stall, func() { cancel(errStalled) })
	defer guarded.Stop()
	wait := &silence{timeouts: p.silences, end: func() { cancel(errSilent) }}
	defer wait.over()
	req := r.WithContext(ctx)
	if p.mayBeSilent(leg, r) {
		wait.answered = true
	} else {
		req.Body = wait.during(r)
	}
	proxy := p.answer(leg.transport)
	proxy.ModifyResponse = func(res *http.Response) error {
		wait.over()
		p.passOn(res.Header)
		res.Body = &answer{ReadCloser: res.Body, cancel: func() { cancel(errAnswered) }}
		return nil
	}
	proxy.ServeHTTP(&hints{ResponseWriter: guarded, tooMany: func() { cancel(errHints) }}, req)
}

// maxHints is how many informational answers a server may send before the final one. net/http's client does not bound
// them if its caller asks to be notified of them.
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

// mayBeSilent knows the requests whose answer may begin whenever it likes: a log that is followed, and what another server behind the
// API server answers.
func (p *proxy) mayBeSilent(leg *leg, r *http.Request) bool {
	return p.silences == nil || leg == p.legs.endless && !isTrue(r.URL.Query(), "watch") || strings.Contains(r.URL.Path+"/", "/proxy/")
}

// answer passes a request on to the transport, and its answer back.
func (p *proxy) answer(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		// Answers of unknown length, such as watches, are flushed at once without being asked.
		Rewrite:    p.rewrite,
		Transport:  transport,
		BufferPool: p.buffers,
		ModifyResponse: func(res *http.Response) error {
			p.passOn(res.Header)
			return nil
		},
		ErrorHandler: p.unreachable,
		ErrorLog:     p.errorLog,
	}
}

// passOn prepares the header of the server's answer.
func (p *proxy) passOn(header http.Header) {
	for name := range header {
		if strings.HasPrefix(name, leatPrefix) {
			header.Del(name) // only the agent speaks as the agent
		}
	}
	if p.tidy != nil {
		p.tidy(header)
	}
}

// answer is a response's body. Closing one of HTTP/2 waits until the request's body has been sent, and an answer that comes
// early, such as a 413, would wait for a caller that has stopped sending because of it. So it ends the request first.
type answer struct {
	io.ReadCloser

	cancel func()
}

// Close implements io.Closer.
func (a *answer) Close() error {
	a.cancel()
	return a.ReadCloser.Close()
}

// silence measures how long a server takes to begin its answer after it has got the whole request.
type silence struct {
	timeouts *timeouts.Queue
	end      func()

	mu       sync.Mutex
	wait     *timeouts.Entry
	answered bool
}

// during returns the request's body, at whose end the wait begins. A server of HTTP/2 gives a body to a request that has none, too,
// which nobody reads.
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

// sentBody tells when it has been read to its end.
type sentBody struct {
	io.ReadCloser

	sent func()
}

// WriteTo implements io.WriterTo, for a body that does.
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
