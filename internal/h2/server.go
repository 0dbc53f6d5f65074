// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ServerParams are what NewServer needs.
type ServerParams struct {
	Settings Settings
	Budget   *Budget
	// Handler answers requests, each in a goroutine of its own.
	Handler http.Handler
	// Logger is told of handlers that panic.
	Logger *slog.Logger
}

// Server is the server's side of one connection.
type Server struct {
	*conn

	params ServerParams
	remote string
	// newContext makes the context of a request.
	newContext func() (context.Context, context.CancelFunc)
	workers    workers
	next       *exchange // the reader's: a request that has come, and that nobody answers yet

	// The connection's lock guards what follows.
	running int // handlers
	begun   bool
	closing bool
}

// NewServer returns a server for a client that speaks HTTP/2 from its first byte (RFC 9113, 3.3). The settings must be valid. Requests'
// contexts derive from ctx.
func NewServer(ctx context.Context, nc net.Conn, params ServerParams) *Server {
	// Proxies look there to learn that somebody recovers from their panics.
	ctx = context.WithValue(ctx, http.ServerContextKey, &http.Server{Handler: params.Handler})
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, nc.LocalAddr())
	s := &Server{
		conn: newConn(nc, params.Settings, params.Budget), params: params, remote: nc.RemoteAddr().String(), workers: workers{jobs: make(chan *exchange)},
		newContext: func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
	}
	s.side = s
	return s
}

// Serve serves the connection until that ends, and returns why. Handlers may go on for a little longer; their requests' contexts
// have ended. It is called once.
func (s *Server) Serve() error {
	s.start(nil, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(s.settings.MaxStreams)})
	s.began()
	if err := s.greet(); err != nil {
		s.fail(err)
	}
	s.delegate(nil)
	<-s.done
	return s.Err()
}

// began lets what had to wait for the connection's first bytes go on.
func (s *Server) began() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	if s.leaving {
		s.announce()
	}
}

// greet reads what a client says first.
func (s *Server) greet() error {
	p, err := s.peek(len(http2.ClientPreface))
	if err != nil {
		return err
	}
	if !bytes.Equal(p, []byte(http2.ClientPreface)) {
		return errNoPreface
	}
	return nil
}

// Shutdown says that no further request is served, and waits, at most as long as ctx, for those under way and until the client has
// closed the connection.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
	s.await(ctx, func() bool { return false })
	if s.err == nil {
		return ctx.Err()
	}
	return nil
}

// leave has the connection end with the requests under way. The lock is held.
func (s *Server) leave() {
	if s.leaving || s.err != nil {
		return
	}
	s.leaving = true
	if s.begun {
		s.announce()
	}
}

// announce says that the server goes. What the client sends before it has read this is still served: the PING's answer comes behind it.
// The lock is held.
func (s *Server) announce() {
	b := appendGoAway(s.out.buffer(), maxStreamID, http2.ErrCodeNo)
	s.urge(appendPing(b, 0, pingNumber(pingGoAway)))
	s.flushSoon()
	time.AfterFunc(goAwayTimeout, s.goes)
}

// pong takes the sign that the client has read that the server goes.
func (s *Server) pong(number byte) {
	if number == pingGoAway {
		s.goes()
	}
}

// goes says which streams are served. Later ones are not.
func (s *Server) goes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving && !s.ending && s.err == nil {
		s.ending = true
		s.urge(appendGoAway(s.out.buffer(), s.last, http2.ErrCodeNo))
		s.flushSoon()
	}
}

func (s *Server) lastSeen() uint32 { return s.last }

// late implements side: the client has ended the stream, or should have read that it has ended.
func (*Server) late(id uint32) error {
	return http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
}

// goAway implements side. The client closes the connection when it has all answers.
func (*Server) goAway(uint32) {}

// left implements side. It is the client who closes, as long as it is there: what it has sent meanwhile would make a reset of the
// end.
func (s *Server) left() {
	if !s.closing {
		s.closing = true
		time.AfterFunc(goAwayTimeout, func() { s.fail(errClosed) })
	}
}

// begin takes a request.
func (s *Server) begin(id uint32, d *decoding, end bool) error {
	x := &exchange{server: s}
	refused, err := s.admit(x, id, d)
	if refused || err != nil {
		return err
	}
	err = x.read(d, end)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || end && x.declared > 0 {
		x.done()
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol, Cause: err}
	}
	x.got = end
	s.next = x
	return nil
}

// admit takes a stream in. It reports true for one that was not and must not be looked at.
func (s *Server) admit(x *exchange, id uint32, d *decoding) (refused bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case id%2 == 0:
		return false, http2.ConnectionError(http2.ErrCodeProtocol)
	case id <= s.last: // it has ended, and the client may not have known
		return false, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	case s.ending, s.err != nil:
		return true, nil
	}
	s.last = id
	refusal := http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	if s.running >= s.settings.MaxStreams || !s.budget.streams.take(1) {
		return false, refusal
	}
	x.init(s.conn, x)
	if !x.hold(d) {
		x.release()
		return false, refusal
	}
	s.running++
	x.context, x.cancel = s.newContext()
	s.add(&x.stream, id)
	return false, nil
}

// header takes the trailer of a request.
func (s *Server) header(st *stream, d *decoding, end bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.id] != st {
		return nil // the answer has ended in the meantime
	}
	pseudo, fields, ok := d.split()
	if !ok || !end || len(pseudo) > 0 || d.tooLarge() || slices.ContainsFunc(fields, notForTrailers) {
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeProtocol}
	}
	if !st.hold(d) {
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeEnhanceYourCalm}
	}
	st.trailer, _ = toHeader(fields)
	return st.endData()
}

// notForTrailers knows what nobody may say behind a body (RFC 9110, 6.5.1).
func notForTrailers(f hpack.HeaderField) bool { return !httpguts.ValidTrailerHeader(canonical(f.Name)) }

// run calls the handler.
func (x *exchange) run() {
	defer x.finish()
	x.handler.ServeHTTP(x, x.req)
	x.returned = true
}

// finish ends the stream when the handler has returned, or panicked.
func (x *exchange) finish() {
	if !x.returned {
		x.panicked(recover())
	} else if err := x.complete(); err != nil && !errors.Is(err, io.EOF) {
		x.fail(http2.ErrCodeInternal, err)
	}
	c := x.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	x.stopTimers()
	if !x.got { // the client is not to send the rest
		x.reset(http2.ErrCodeNo, errHandlerDone)
	}
	x.drop()
	x.done()
	c.flush()
}

// done gives the handler's place back. The lock is held.
func (x *exchange) done() {
	x.cancel()
	x.release()
	x.server.running--
}

// panicked ends a stream whose handler has. What was said is not the whole answer.
func (x *exchange) panicked(reason any) {
	x.fail(http2.ErrCodeInternal, errHandlerDone)
	if reason == nil || reason == http.ErrAbortHandler { //nolint:errorlint // nobody wraps it
		return
	}
	x.server.params.Logger.ErrorContext(x.context, "handler panicked", slog.Any("panic", reason), slog.String("stack", string(debug.Stack())))
}
