// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// maxInformational is how many answers may come before the one that counts.
const maxInformational = 32

// call is a client's stream: a request, and the answer on its way.
type call struct {
	stream

	req    *http.Request
	length int64         // of the body; -1: not known; 0: there is none
	head   chan struct{} // told when there is something for the one who waits for the answer

	// The lock guards what follows.
	res           *http.Response
	failed        error
	informational []informational
	informed      int

	// There is no upload where continued is nil.
	continued chan struct{} // closed when the body may be sent
	stopped   chan struct{} // closed when the body is not wanted any more
	stopping  sync.Once
	closing   sync.Once
	release   func() bool // stops listening to the context; nil: nobody does
}

// informational is an answer that precedes the one that counts.
type informational struct {
	status int
	header http.Header
}

func newCall(req *http.Request) *call {
	c := &call{req: req, length: bodyLength(req), head: make(chan struct{}, 1)}
	if c.uploads() {
		c.continued, c.stopped = make(chan struct{}), make(chan struct{})
	}
	return c
}

// bodyLength is 0 where there is no body, and -1 where nobody knows.
func bodyLength(req *http.Request) int64 {
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return 0
	case req.ContentLength != 0:
		return req.ContentLength
	}
	return -1
}

func (c *call) uploads() bool { return c.length != 0 }

// await returns the answer.
func (c *call) await() (*http.Response, error) {
	ctx := c.req.Context()
	for {
		select {
		case <-c.head:
		case <-ctx.Done():
			c.abandon(ctx.Err())
			return nil, ctx.Err()
		}
		res, informational, err := c.heard()
		for _, each := range informational {
			if err := c.report(each); err != nil {
				c.abandon(err)
				return nil, err
			}
		}
		switch {
		case err != nil:
			c.stopUpload()
			return nil, err
		case res != nil:
			return res, nil
		}
	}
}

// heard returns what has come. An answer is given back to its context's care, unless all of it has come.
func (c *call) heard() (*http.Response, []informational, error) {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	informational := c.informational
	c.informational = nil
	if c.res == nil {
		return nil, informational, refusal(c.failed)
	}
	if !c.got || !c.sent {
		ctx := c.req.Context()
		c.release = context.AfterFunc(ctx, func() { c.abandon(ctx.Err()) })
	}
	return c.res, informational, nil
}

// report tells the request's trace of an informational answer.
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

// abandon ends the request for a reason of this side's.
func (c *call) abandon(err error) {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	c.reset(http2.ErrCodeCancel, err)
	c.conn.flushSoon()
}

// inform takes an informational answer. It reports false when there are too many. The lock is held.
func (c *call) inform(status int, header http.Header) bool {
	if status == http.StatusContinue && c.continued != nil {
		select {
		case <-c.continued:
		default:
			close(c.continued)
		}
	}
	c.informational = append(c.informational, informational{status, header})
	c.informed++
	c.conn.later(&c.stream)
	return c.informed <= maxInformational
}

// answer takes the head of the answer. The lock is held.
func (c *call) answer(status int, header, trailer http.Header, end bool) {
	c.res = &http.Response{
		Status: statusText(status), StatusCode: status, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Trailer: trailer, ContentLength: -1, Request: c.req, Body: http.NoBody,
	}
	if lengths := header["Content-Length"]; len(lengths) == 1 {
		if length, err := strconv.ParseUint(lengths[0], 10, 63); err == nil {
			c.res.ContentLength = int64(length)
		}
	} else if end && c.req.Method != http.MethodHead {
		c.res.ContentLength = 0
	}
	switch {
	case c.req.Method == http.MethodHead:
	case !end:
		if bodyAllowed(status) {
			c.declared = c.res.ContentLength
		}
		c.res.Body = &answerBody{call: c}
	case c.res.ContentLength > 0 && bodyAllowed(status):
		c.res.Body = missingBody{}
	}
}

// missingBody is that of an answer that has announced one and has none.
type missingBody struct{}

// Read implements io.Reader.
func (missingBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Close implements io.Closer.
func (missingBody) Close() error { return nil }

// bodyAllowed knows the answers that end with their head (RFC 9110, 6.4.1).
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// statusText is what HTTP/1 says after its version.
func statusText(status int) string {
	if status == http.StatusOK {
		return "200 OK"
	}
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}

func (c *call) came() {
	if c.res == nil && len(c.informational) == 0 {
		return
	}
	c.tell()
}

func (c *call) tell() {
	select {
	case c.head <- struct{}{}:
	default:
	}
}

func (c *call) ended(err error) {
	c.failed = err
	c.tell()
	c.unwanted()
}

func (c *call) removed() { c.stream.release() }

func (c *call) satisfied() bool { return c.got }

func (c *call) unwanted() {
	if c.uploads() {
		c.stopUpload()
	}
}

// expects implements owner: there is a head first, and no body to HEAD.
func (c *call) expects(bytes int64) bool {
	return c.res != nil && (bytes == 0 || c.req.Method != http.MethodHead)
}

// short implements owner. The answer is over, but nobody takes it for a whole one.
func (c *call) short() error {
	c.err = io.ErrUnexpectedEOF
	c.finishReceiving()
	return nil
}

// stopUpload ends an upload that goes on. What reads the body is unblocked by closing that, which may wait for the read.
func (c *call) stopUpload() {
	if !c.uploads() {
		return
	}
	c.stopping.Do(func() {
		close(c.stopped)
		go c.closeBody()
	})
}

// untouched reports whether the request can be sent again as it is: nobody has begun to read its body.
func (c *call) untouched() bool { return !c.uploads() || c.conn == nil }

// closeBody closes the request's body, once. It may wait for who reads it.
func (c *call) closeBody() {
	if c.req.Body != nil {
		c.closing.Do(func() { _ = c.req.Body.Close() })
	}
}

// uploadBuffer is how much of a body is read at once: all that a reader finds who was busy for a while.
const uploadBuffer = 4 * bulk

var (
	errTooLong = errors.New("http2: the request's body is longer than its Content-Length")
	copyPool   sync.Pool // of *[uploadBuffer]byte
)

// upload sends the body.
func (c *call) upload() {
	err := c.sendBody()
	c.closeBody()
	select {
	case <-c.stopped: // nobody waits for the rest: that it fails says nothing about the answer
	default:
		if err != nil {
			c.abandon(err)
		}
	}
}

func (c *call) sendBody() error {
	if !c.awaitContinue() {
		return errAnswerOver
	}
	if body, ok := c.req.Body.(io.WriterTo); ok && (c.length < 0 || c.length > bulk) {
		return c.passBody(body)
	}
	buffer, free := c.uploadBuffer()
	defer free()
	left := c.length
	for {
		n, err := c.req.Body.Read(buffer)
		if left >= 0 {
			if left -= int64(n); left < 0 {
				return errTooLong
			}
			if left == 0 && err == nil {
				err = c.expectEnd()
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil && left > 0 {
			return io.ErrUnexpectedEOF
		}
		if _, sending := c.send(buffer[:n], err != nil && len(c.req.Trailer) == 0); sending != nil {
			return sending
		}
		if err != nil {
			return c.sendTrailer()
		}
	}
}

// uploadBuffer returns a buffer for a body and a function that frees it. The buffer is small if the peer accepts only
// small frames, because an upload holds its buffer for as long as the peer reads nothing.
func (c *call) uploadBuffer() (buffer []byte, free func()) {
	c.conn.mu.Lock()
	frame := c.conn.peerFrame
	c.conn.mu.Unlock()
	if frame < bulk {
		return make([]byte, minFrameSize), func() {}
	}
	lent, ok := copyPool.Get().(*[uploadBuffer]byte)
	if !ok {
		lent = new([uploadBuffer]byte)
	}
	return lent[:], func() { copyPool.Put(lent) }
}

// passBody sends a body that writes itself. That is not worth its while for a small one, whose end leaves together with it otherwise.
func (c *call) passBody(body io.WriterTo) error {
	to := &uploading{call: c, left: c.length}
	if _, err := body.WriteTo(to); err != nil {
		return err
	}
	if to.left > 0 {
		return io.ErrUnexpectedEOF
	}
	if len(c.req.Trailer) > 0 {
		return c.sendTrailer()
	}
	_, err := c.send(nil, true)
	return err
}

// uploading is what a body writes itself to.
type uploading struct {
	call *call
	left int64 // how much is to come; negative: nobody knows
}

// Write implements io.Writer.
func (u *uploading) Write(p []byte) (int, error) {
	if u.left >= 0 {
		if int64(len(p)) > u.left {
			return 0, errTooLong
		}
		u.left -= int64(len(p))
	}
	return u.call.send(p, false)
}

// expectEnd reads the end of a body of which everything was read.
func (c *call) expectEnd() error {
	var one [1]byte
	for {
		n, err := c.req.Body.Read(one[:])
		if n > 0 {
			return errTooLong
		}
		if err != nil {
			return err
		}
	}
}

// sendTrailer sends what follows a body, if anything does.
func (c *call) sendTrailer() error {
	if len(c.req.Trailer) == 0 {
		return nil
	}
	for name, values := range c.req.Trailer {
		if err := validField(name, values); err != nil {
			return err
		}
	}
	conn := c.conn
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if err := c.awaitRoom(); err != nil || c.sent {
		return errAnswerOver
	}
	conn.enc.open()
	for name, values := range c.req.Trailer {
		for _, value := range values {
			conn.enc.add(lower(name), value)
		}
	}
	conn.out.pending = appendBlock(conn.out.buffer(), c.id, conn.enc.block.Bytes(), true, conn.peerFrame)
	c.finishSending()
	conn.flush()
	return nil
}

// awaitContinue waits until the body is wanted. It reports false when it is not.
func (c *call) awaitContinue() bool {
	timeout := c.conn.settings.ContinueTimeout
	if timeout == 0 || !httpguts.HeaderValuesContainsToken(c.req.Header["Expect"], "100-continue") {
		return true
	}
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	select {
	case <-c.continued:
	case <-patience.C:
	case <-c.stopped:
		return false
	}
	return true
}

// answerBody is the body of an answer.
type answerBody struct{ call *call }

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.call.read(p)
	if err != nil {
		b.call.over(err)
	}
	return n, err
}

// over takes note that the answer was read. Its trailer is there from now on.
func (c *call) over(err error) {
	if c.release != nil {
		c.release()
	}
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if !errors.Is(err, io.EOF) || c.trailer == nil {
		return
	}
	if c.res.Trailer == nil {
		c.res.Trailer = http.Header{}
	}
	for name, values := range c.trailer {
		c.res.Trailer[name] = values
	}
	c.trailer = nil
}

// Close implements io.Closer. It ends the request where that goes on, and waits for nothing.
func (b *answerBody) Close() error {
	c := b.call
	if c.release != nil {
		c.release()
	}
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	c.reset(http2.ErrCodeCancel, errBodyClosed)
	c.conn.flushSoon()
	return nil
}
