// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leatdev/leat/internal/kit/wake"
)

// maxInformational is how many informational answers may precede the final one.
const maxInformational = 32

// call is a client's stream: a request, and the answer on its way. The goroutine of RoundTrip
// awaits the answer, and afterwards the body's reader owns the stream.
type call struct {
	stream

	req      *http.Request
	upload   upload
	progress wake.Signal // set when there is something for the goroutine that awaits the answer

	// The connection's lock guards the following fields.
	res           *http.Response
	failed        error
	informational []informational // not reported yet
	informed      int

	release func() bool // stops listening to the context
}

// informational is an answer that precedes the final one.
type informational struct {
	status int
	header http.Header
}

func newCall(req *http.Request) *call {
	c := &call{req: req, progress: wake.NewSignal(), release: func() bool { return false }}
	c.upload.init(&c.stream, req)
	return c
}

// await returns the answer. While it waits, ctx ends the request; afterwards takeAnswer has made
// the stream end with ctx, until the body was read or closed.
func (c *call) await() (*http.Response, error) {
	ctx := c.req.Context()
	for {
		select {
		case <-c.progress:
		case <-ctx.Done():
			c.fail(http2.ErrCodeCancel, ctx.Err())
			return nil, ctx.Err()
		}
		res, informational, err := c.takeAnswer()
		for _, each := range informational {
			if err := c.report(each); err != nil {
				c.fail(http2.ErrCodeCancel, err)
				return nil, err
			}
		}
		switch {
		case err != nil:
			c.upload.stop()
			return nil, err
		case res != nil:
			return res, nil
		}
	}
}

// takeAnswer returns what has come since the last time, informational answers in their order. Once
// the final answer is there, the end of the request's context ends the stream. If the stream has
// finished in both directions already, as with small answers, the context is not watched, which is
// cheaper.
func (c *call) takeAnswer() (*http.Response, []informational, error) {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	informational := c.informational
	c.informational = nil
	if c.res == nil {
		return nil, informational, requestError(c.failed)
	}
	if !c.in.isDone || !c.out.isDone {
		ctx := c.req.Context()
		c.release = context.AfterFunc(ctx, func() { c.fail(http2.ErrCodeCancel, ctx.Err()) })
	}
	return c.res, informational, nil
}

// report passes an informational answer to the request's trace.
func (c *call) report(i informational) error {
	trace := httptrace.ContextClientTrace(c.req.Context())
	if trace == nil {
		return nil
	}
	if trace.Got1xxResponse != nil {
		if err := trace.Got1xxResponse(i.status, textproto.MIMEHeader(i.header)); err != nil {
			return err
		}
	}
	if i.status == http.StatusContinue && trace.Got100Continue != nil {
		trace.Got100Continue()
	}
	return nil
}

// informLocked handles an informational answer. It reports false when there are too many.
func (c *call) informLocked(status int, header http.Header) bool {
	if status == http.StatusContinue {
		c.upload.allowLocked()
	}
	c.informational = append(c.informational, informational{status, header})
	c.informed++
	c.mux.queueWakeLocked(&c.stream)
	return c.informed <= maxInformational
}

// answerLocked handles the head of the final answer.
func (c *call) answerLocked(status int, header, trailer http.Header, end bool) {
	c.res = &http.Response{
		Status: statusText(status), StatusCode: status, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Trailer: trailer, Request: c.req, Body: http.NoBody,
	}
	values := header["Content-Length"]
	c.res.ContentLength, _ = contentLength(values)
	if c.req.Method == http.MethodHead {
		return
	}
	if len(values) != 1 && end {
		c.res.ContentLength = 0
	}
	if allowsBody(status) {
		c.in.declared = c.res.ContentLength
	}
	if !end || c.in.declared > 0 { // an announced body that does not follow is an error for its reader
		c.res.Body = &answerBody{call: c}
	}
}

// receivedLocked implements [streamHandler]. Data behind the head concerns only the body's reader.
func (c *call) receivedLocked() {
	if c.res != nil || len(c.informational) > 0 {
		c.progress.Set()
	}
}

// endedLocked implements [streamHandler].
func (c *call) endedLocked(err error) {
	c.failed = err
	c.progress.Set()
	c.upload.stop()
}

// stopSendingLocked implements [streamHandler].
func (c *call) stopSendingLocked() { c.upload.stop() }

// sentLocked implements [streamHandler].
func (*call) sentLocked() {}

// canReceiveLocked implements [streamHandler]: the head comes first, and the answer to HEAD is only
// that.
func (c *call) canReceiveLocked(bytes int64) bool {
	return c.res != nil && (bytes == 0 || c.req.Method != http.MethodHead)
}

// isUntouched reports whether the request can be sent again, because its body was not read.
func (c *call) isUntouched() bool { return !c.upload.hasBody() || c.mux == nil }

// answerBody is the body of an answer.
type answerBody struct{ call *call }

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.call.read(p)
	if err != nil {
		b.call.finishReading(err)
	}
	return n, err
}

// finishReading is called when the body was read, or has failed. The trailer is there from now on.
// It is copied here, by the body's reader, because the caller of RoundTrip owns the answer.
func (c *call) finishReading(err error) {
	c.release()
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if !errors.Is(err, io.EOF) || c.in.trailer == nil {
		return
	}
	if c.res.Trailer == nil {
		c.res.Trailer = http.Header{}
	}
	maps.Copy(c.res.Trailer, c.in.trailer)
	c.in.trailer = nil
}

// Close implements io.Closer. It ends the request if that is still under way. It does not block.
func (b *answerBody) Close() error {
	b.call.release()
	b.call.fail(http2.ErrCodeCancel, errBodyClosed)
	return nil
}

// requestError returns the error of a request whose stream has ended with this one. Callers compare
// with the package's errors: a request that the server refuses can be sent again, others may have
// had effects.
func requestError(err error) error {
	if reset, ok := errors.AsType[http2.StreamError](err); ok {
		switch {
		case reset.Code == http2.ErrCodeRefusedStream:
			return fmt.Errorf("%w: %w", ErrRefused, err)
		case errors.Is(reset.Cause, ErrHeaderTooLarge):
			return ErrHeaderTooLarge
		case errors.Is(reset.Cause, ErrBusy):
			return ErrBusy
		}
	}
	return err
}

// readStatus returns the status of an answer, which is its only pseudo field.
func readStatus(pseudo []hpack.HeaderField) (int, bool) {
	if len(pseudo) != 1 || pseudo[0].Name != ":status" || len(pseudo[0].Value) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(pseudo[0].Value)
	return status, err == nil && status >= 100
}

// allowsBody reports whether an answer with this status may have a body (RFC 9110, 6.4.1).
func allowsBody(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// statusText returns the status as HTTP/1 has it after its version.
func statusText(status int) string {
	if status == http.StatusOK {
		return "200 OK"
	}
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}
