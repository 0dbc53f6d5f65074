// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ServerParams are the arguments of NewServer. All are required.
type ServerParams struct {
	Settings Settings
	Budget   *Budget
	// Handler answers requests, each in a goroutine of its own.
	Handler http.Handler
	// Logger logs panics of handlers.
	Logger *slog.Logger
}

// Server is the server's side of one connection.
type Server struct {
	*conn

	service service
	workers workers
	next    *exchange // the reader's: a request that has come, and that no goroutine answers yet

	hasStarted bool // Serve was called; the connection's lock guards it
}

// NewServer returns a server for a client that speaks HTTP/2 from its first byte (RFC 9113, 3.3).
// The settings must be valid. Requests' contexts derive from ctx.
func NewServer(ctx context.Context, nc net.Conn, params ServerParams) *Server {
	// httputil.ReverseProxy looks for the server there to know that its panics are recovered.
	server := &http.Server{Handler: params.Handler, ReadHeaderTimeout: params.Settings.PingAfter}
	ctx = context.WithValue(ctx, http.ServerContextKey, server)
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, nc.LocalAddr())
	s := &Server{conn: &conn{}, workers: workers{jobs: make(chan job)}}
	s.service = service{
		handler: params.Handler, logger: params.Logger, remote: nc.RemoteAddr().String(),
		newContext: func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
	}
	s.isServer = true
	s.init(nc, s, params.Settings, params.Budget)
	return s
}

// Serve serves the connection until it ends, and returns why. Handlers may run for a little longer;
// their requests' contexts have ended. It is called once.
func (s *Server) Serve() error {
	s.start("", http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(s.settings.MaxStreams)})
	s.mu.Lock()
	s.hasStarted = true
	if s.isLeaving {
		s.announceLocked()
	}
	s.mu.Unlock()
	if p, err := s.reader.peek(len(http2.ClientPreface)); err != nil {
		s.fail(err)
	} else if string(p) != http2.ClientPreface {
		s.fail(errNoPreface)
	}
	s.delegate(nil)
	<-s.done
	return s.Err()
}

// Shutdown announces that no further request is served, and waits, at most as long as ctx, for
// those under way and until the client has closed the connection.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isLeaving && s.out.err == nil {
		s.isLeaving = true
		if s.hasStarted {
			s.announceLocked()
		}
	}
	s.awaitLocked(ctx, func() bool { return false })
	if s.out.err == nil {
		return ctx.Err()
	}
	return nil
}

// announceLocked announces that the server leaves, without a last stream. Requests that the client
// sends before it has read that are still served: it answers the PING behind the GOAWAY when it
// has.
func (s *Server) announceLocked() {
	s.goAwayLocked(maxStreamID)
	s.out.urgeLocked(appendPing(s.out.buffer(), pingGoAway))
	s.out.flushSoonLocked()
	time.AfterFunc(goAwayTimeout, s.announceLast)
}

// announceLast announces the last stream that is served. The connection ends after it. The client
// should close the connection then: data that it sends after the server has closed it would cause a
// reset, and the last answer could be lost.
func (s *Server) announceLast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isLeaving && !s.isEnding && s.out.err == nil {
		s.isEnding = true
		s.goAwayLocked(s.last)
		s.out.flushSoonLocked()
		go s.closeWhenIdle(goAwayTimeout)
	}
}

// pong implements [role].
func (s *Server) pong(question byte) {
	if question == pingGoAway {
		s.announceLast()
	}
}

// goAway implements [role]. The client closes the connection when it has all answers.
func (*Server) goAway(uint32) {}

// openStream implements [role]: the header belongs to a request. The stream is admitted first, so
// that a refused request costs nothing more, then the request is parsed without the lock, and the
// reader hands it over after the frame.
func (s *Server) openStream(id uint32, d *headerDecoder) error {
	x := &exchange{service: &s.service}
	isRefused, err := s.admit(x, id, d)
	if isRefused || err != nil {
		return err
	}
	err = x.prepare(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || d.endsStream && x.stream.in.declared > 0 {
		x.freeLocked()
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol, Cause: err}
	}
	x.stream.in.isDone = d.endsStream
	s.next = x
	return nil
}

// admit adds a stream. It reports true for a stream that the client knows is not served. Limits
// count handlers that run, not streams that are open: a client could reset streams faster than
// their handlers return.
func (s *Server) admit(x *exchange, id uint32, d *headerDecoder) (isRefused bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case id%2 == 0:
		return false, http2.ConnectionError(http2.ErrCodeProtocol)
	case id <= s.last: // it has ended, and the client may not have known
		return false, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	case s.isEnding, s.out.err != nil:
		return true, nil
	}
	s.last = id
	refusal := http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	if s.service.running >= s.settings.MaxStreams || !s.account.budget.streams.take(1) {
		return false, refusal
	}
	x.stream.initLocked(&s.mux, x)
	if !x.stream.holdLocked(d.heldBytes()) {
		x.stream.releaseLocked()
		return false, refusal
	}
	x.hasPlace = true
	s.service.running++
	x.context, x.cancel = s.service.newContext()
	s.addLocked(&x.stream, id)
	return false, nil
}

// continueStream implements [role]: the header is the trailer of a request.
func (s *Server) continueStream(st *stream, d *headerDecoder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasLocked(st) {
		return nil // the answer has ended in the meantime
	}
	pseudo, fields, ok := d.split()
	if !ok || !d.endsStream || len(pseudo) > 0 || d.isTooLarge() || slices.ContainsFunc(fields, isNotForTrailers) {
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeProtocol}
	}
	if !st.holdLocked(d.heldBytes()) {
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeEnhanceYourCalm}
	}
	st.in.trailer, _ = toHeader(fields)
	return st.endDataLocked()
}

// isNotForTrailers reports whether a trailer may not have a field (RFC 9110, 6.5.1).
func isNotForTrailers(f hpack.HeaderField) bool {
	return !httpguts.ValidTrailerHeader(canonical(f.Name))
}

// workers are the goroutines of a server. One of them reads. When a request has come and nothing
// behind it, that goroutine has another one read on, and calls the handler itself: so no request
// waits until the reader has found that there is nothing more to read. A goroutine that has
// answered waits for the next job, with the stack that has grown for the handler.
type workers struct {
	jobs      chan job    // requests to answer; nil to read on
	isWaiting atomic.Bool // a goroutine waits for a job
}

// delegate has another goroutine answer a request, or read on if x is nil. Only the reader calls
// it.
func (s *Server) delegate(x job) {
	select {
	case s.workers.jobs <- x:
	default:
		go s.work(x)
	}
}

// handOver implements [role].
func (s *Server) handOver() job {
	x := s.next
	if x == nil {
		return nil
	}
	s.next = nil
	if s.reader.in.Buffered() > 0 {
		s.delegate(x)
		return nil
	}
	s.wake()
	s.delegate(nil)
	return x
}

// work does one job after the other.
func (s *Server) work(x job) {
	for more := true; more; x, more = s.workers.wait() {
		if x == nil {
			x = s.run()
		}
		if x == nil { // the connection has ended
			close(s.workers.jobs)
			return
		}
		x.run()
	}
}

// wait waits for a job. It reports false if there will be none, or if another goroutine waits
// already.
func (w *workers) wait() (job, bool) {
	if !w.isWaiting.CompareAndSwap(false, true) {
		return nil, false
	}
	defer w.isWaiting.Store(false)
	x, more := <-w.jobs
	return x, more
}
