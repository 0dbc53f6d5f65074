// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// errDeadline is the error of reads and writes after their deadline.
var errDeadline = fmt.Errorf("http2: %w", os.ErrDeadlineExceeded)

// service is shared by all exchanges of a connection.
type service struct {
	handler    http.Handler
	logger     *slog.Logger
	remote     string // the client's address
	newContext func() (context.Context, context.CancelFunc)

	running int // handlers that hold a place; the connection's lock guards it
}

// exchange is a server's stream: a request, and the answer that its handler writes. It is the
// handler's http.ResponseWriter, and belongs to the handler's goroutine, except the request's body
// and the fields that the connection's lock guards. It ends when the handler returns, at the
// latest.
type exchange struct {
	answer

	stream   stream
	service  *service
	handler  http.Handler
	context  context.Context //nolint:containedctx // it is the request's, which has it, too
	cancel   context.CancelFunc
	req      *http.Request
	returned bool

	// The connection's lock guards the following fields.
	hasPlace   bool // the handler counts as running
	readTimer  *time.Timer
	writeTimer *time.Timer
}

// prepare makes the request of its header.
func (x *exchange) prepare(d *headerDecoder) error {
	req, err := readRequest(x.context, x.service.remote, d)
	if err != nil {
		return err
	}
	if !d.endsStream {
		expects := httpguts.HeaderValuesContainsToken(req.Header["Expect"], "100-continue")
		if expects {
			delete(req.Header, "Expect")
		}
		req.Body = &requestBody{exchange: x, expectsContinue: expects}
	}
	x.req, x.stream.in.declared = req, req.ContentLength
	x.handler = x.service.handler
	if d.isTooLarge() {
		x.handler = http.HandlerFunc(refuseHeader)
	}
	x.initAnswer(&x.stream, req.Method)
	return nil
}

// run implements [job]: it calls the handler.
func (x *exchange) run() {
	defer x.finish()
	x.handler.ServeHTTP(x, x.req)
	x.returned = true
}

// finish ends the stream when the handler has returned, or panicked, or ended its goroutine. The
// handler's place is not free before: a client that resets requests again and again has as many
// handlers running as it may have streams, and not more (CVE-2023-44487).
func (x *exchange) finish() {
	if !x.returned {
		x.abort(recover())
	} else if err := x.complete(); err != nil && !errors.Is(err, io.EOF) {
		x.stream.fail(http2.ErrCodeInternal, err)
	}
	m := x.stream.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	stopLocked(&x.readTimer)
	stopLocked(&x.writeTimer)
	if !x.stream.in.isDone { // the client should not send the rest
		x.stream.resetLocked(http2.ErrCodeNo, errHandlerDone)
	}
	x.stream.dropLocked()
	x.freeLocked()
	m.out.flushLocked()
}

// freeLocked ends the request's context, and gives back the handler's place and the stream's room
// in the budget.
func (x *exchange) freeLocked() {
	x.cancel()
	x.stream.releaseLocked()
	x.freePlaceLocked()
}

// freePlaceLocked lets another handler run in this one's place.
func (x *exchange) freePlaceLocked() {
	if x.hasPlace {
		x.hasPlace = false
		x.service.running--
	}
}

// abort resets a stream whose handler has not returned: its answer is not complete.
func (x *exchange) abort(reason any) {
	x.stream.fail(http2.ErrCodeInternal, errHandlerDone)
	if reason == nil || reason == http.ErrAbortHandler { //nolint:errorlint // it is not wrapped
		return
	}
	stack := slog.String("stack", string(debug.Stack()))
	x.service.logger.ErrorContext(x.context, "handler panicked", slog.Any("panic", reason), stack)
}

// receivedLocked implements [streamHandler].
func (*exchange) receivedLocked() {}

// endedLocked implements [streamHandler].
func (x *exchange) endedLocked(error) { x.cancel() }

// stopSendingLocked implements [streamHandler]. A client does not do this without ending the
// request.
func (*exchange) stopSendingLocked() {}

// sentLocked implements [streamHandler]. The handler that has returned gives up its place before
// the client sees the end of the answer: the client may begin its next request at once.
func (x *exchange) sentLocked() {
	if x.returned {
		x.freePlaceLocked()
	}
}

// canReceiveLocked implements [streamHandler].
func (*exchange) canReceiveLocked(int64) bool { return true }

// requestBody is the body of a request.
type requestBody struct {
	exchange        *exchange
	expectsContinue bool // the client waits for "100 Continue"
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.request()
	n, err := b.exchange.stream.read(p)
	if errors.Is(err, io.EOF) {
		b.exchange.setTrailer()
	}
	return n, err
}

// WriteTo implements io.WriterTo. It writes bytes without copying them first.
func (b *requestBody) WriteTo(w io.Writer) (int64, error) {
	b.request()
	n, err := b.exchange.stream.writeTo(w)
	if err == nil {
		b.exchange.setTrailer()
	}
	return n, err
}

// request asks the client for the body, if it waits for that.
func (b *requestBody) request() {
	if b.expectsContinue {
		b.expectsContinue = false
		b.exchange.sayContinue()
	}
}

// setTrailer sets the request's trailer after its body was read.
func (x *exchange) setTrailer() {
	x.stream.mux.mu.Lock()
	defer x.stream.mux.mu.Unlock()
	for name := range x.req.Trailer {
		if values, ok := x.stream.in.trailer[name]; ok {
			x.req.Trailer[name] = values
		}
	}
}

// Close implements io.Closer. Later bytes are dropped.
func (b *requestBody) Close() error {
	b.exchange.stream.mux.mu.Lock()
	defer b.exchange.stream.mux.mu.Unlock()
	b.exchange.stream.dropLocked()
	return nil
}

// SetReadDeadline is called by http.ResponseController.
func (x *exchange) SetReadDeadline(t time.Time) error {
	return x.setTimer(&x.readTimer, t, func() {
		x.stream.in.expired = errDeadline
		x.stream.in.readable.Broadcast()
	})
}

// SetWriteDeadline is called by http.ResponseController. The stream is reset when the deadline has
// passed.
func (x *exchange) SetWriteDeadline(t time.Time) error {
	return x.setTimer(&x.writeTimer, t, func() {
		x.stream.resetLocked(http2.ErrCodeInternal, errDeadline)
		x.stream.mux.out.flushSoonLocked()
	})
}

// setTimer calls expire with the lock at a time, or never at the zero time. It replaces an earlier
// timer.
func (x *exchange) setTimer(timer **time.Timer, t time.Time, expire func()) error {
	x.stream.mux.mu.Lock()
	defer x.stream.mux.mu.Unlock()
	stopLocked(timer)
	left := time.Until(t)
	switch {
	case t.IsZero():
		return nil
	case left <= 0:
		expire()
		return nil
	}
	var this *time.Timer
	this = time.AfterFunc(left, func() {
		x.stream.mux.mu.Lock()
		defer x.stream.mux.mu.Unlock()
		if *timer == this { // it was not replaced meanwhile
			expire()
		}
	})
	*timer = this
	return nil
}

// stopLocked ends a deadline, if there is one.
func stopLocked(timer **time.Timer) {
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
}

// EnableFullDuplex is called by http.ResponseController. A stream's directions are independent
// anyway.
func (*exchange) EnableFullDuplex() error { return nil }
