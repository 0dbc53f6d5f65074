// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Client is the client's side of a connection. It is an http.RoundTripper for requests to whoever is at the other end, whatever host they
// name. It is safe for concurrent use.
type Client struct{ *conn }

var _ http.RoundTripper = (*Client)(nil)

// NewClient begins HTTP/2 on a connection, which then is the client's. The settings must be valid.
func NewClient(nc net.Conn, settings Settings, budget *Budget) *Client {
	c := &Client{newConn(nc, settings, budget)}
	c.side = c
	c.start([]byte(http2.ClientPreface), http2.Setting{ID: http2.SettingEnablePush})
	go c.run()
	return c
}

// RoundTrip implements http.RoundTripper. Errors are [ErrFull], [ErrRefused] and http2.StreamError where the peer has ended the request,
// the context's where the caller has, and others when the connection has ended.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	call := newCall(req)
	res, err := c.send(call)
	if err != nil {
		call.closeBody()
	}
	return res, err
}

// send sends a request and returns its answer. When it fails the body is the caller's, unless an upload was begun.
func (c *Client) send(call *call) (*http.Response, error) {
	if err := c.begins(call); err != nil {
		return nil, err
	}
	if call.uploads() {
		go call.upload()
	}
	return call.await()
}

// closeIfIdle closes a connection that carries no request. It reports whether it does not.
func (c *Client) closeIfIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streams) > 0 {
		return false
	}
	c.failLocked(errClosed)
	return true
}

// begins sends the header of a request.
func (c *Client) begins(call *call) error {
	if err := call.req.Context().Err(); err != nil {
		return err
	}
	head, err := newRequestHead(call.req, call.length)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.readyLocked(); err != nil {
		return err
	}
	if head.size > c.peerHeader {
		return fmt.Errorf("http2: the header of the request has %d bytes, and the peer takes %d", head.size, c.peerHeader)
	}
	if err := c.awaitTurn(call); err != nil {
		return err
	}
	if !c.budget.streams.take(1) {
		return ErrBusy
	}
	call.init(c.conn, call)
	call.sent = !call.uploads()
	c.add(&call.stream, c.last+1+c.last%2)
	c.enc.open()
	head.encode(&c.enc)
	c.out.pending = appendBlock(c.out.buffer(), call.id, c.enc.block.Bytes(), call.sent, c.peerFrame)
	c.flush()
	return nil
}

// awaitTurn blocks until the header of a request may be sent. It fails if the request's context has ended or the
// connection accepts no more requests. The lock is held, and is released while it waits.
func (c *Client) awaitTurn(call *call) error {
	if c.takesHead(nil) {
		return nil
	}
	waiting := &stream{conn: c.conn}
	waiting.sendable.L = &c.mu
	ctx := call.req.Context()
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		waiting.err = ctx.Err()
		waiting.sendable.Broadcast()
	})()
	if err := waiting.awaitRoom(); err != nil && c.err == nil {
		return err
	}
	return c.readyLocked()
}

// Ready tells whether a request can be sent: [ErrFull] while the peer takes no more of them, [ErrRefused] when it will never take one again.
func (c *Client) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readyLocked()
}

const maxStreamID = 1<<31 - 1

func (c *Client) readyLocked() error {
	switch {
	case c.err != nil:
		return fmt.Errorf("%w: %w", ErrRefused, c.err)
	case c.leaving, c.last >= maxStreamID-1:
		return fmt.Errorf("%w: the connection is about to end", ErrRefused)
	case len(c.streams) >= c.peerStreams:
		return ErrFull
	}
	return nil
}

// Shutdown says that no further request will come, waits for those under way, at most as long as ctx, and closes the connection unless
// ctx has ended.
func (c *Client) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	c.leaving = true
	c.urge(appendGoAway(c.out.buffer(), 0, http2.ErrCodeNo))
	c.flushSoon()
	c.await(ctx, func() bool { return len(c.streams) == 0 })
	c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Close()
}

func (*Client) relieved() *exchange { return nil }
func (*Client) lastSeen() uint32    { return 0 }
func (*Client) late(uint32) error   { return nil } // it was on its way when the request was canceled
func (*Client) pong(byte)           {}
func (c *Client) left()             { c.failLocked(errClosed) }

// goAway ends what the peer has not begun, and waits for the rest.
func (c *Client) goAway(last uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving, c.ending = true, true
	for id, s := range c.streams {
		if id > last {
			s.end(fmt.Errorf("%w: it goes away", ErrRefused))
		}
	}
	c.settle()
}

// begin takes the header of an answer that nobody waits for any more.
func (c *Client) begin(id uint32, _ *decoding, _ bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle(id) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil
}

// header takes the head or the trailer of an answer.
func (c *Client) header(s *stream, d *decoding, end bool) error {
	call, ok := s.owner.(*call)
	if !ok {
		return http2.ConnectionError(http2.ErrCodeInternal) // a client has no other streams
	}
	malformed := http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[s.id] != s {
		return nil // the request was canceled in the meantime
	}
	if d.tooLarge() {
		malformed.Cause = ErrHeaderTooLarge
		return malformed
	}
	pseudo, fields, ok := d.split()
	if !ok {
		return malformed
	}
	if !s.hold(d) {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeEnhanceYourCalm, Cause: ErrBusy}
	}
	if call.res != nil {
		if !end || len(pseudo) > 0 {
			return malformed
		}
		s.trailer, _ = toHeader(fields)
		return s.endData()
	}
	status, ok := statusOf(pseudo)
	if !ok {
		return malformed
	}
	header, trailer := toHeader(fields)
	if status < http.StatusOK {
		if end || status == http.StatusSwitchingProtocols || s.headers > d.limit || !call.inform(status, header) {
			return malformed
		}
		return nil
	}
	call.answer(status, header, trailer, end)
	if end {
		s.declared = -1
		return s.endData()
	}
	c.later(s)
	return nil
}

// statusOf reads the only pseudo field that an answer has.
func statusOf(pseudo []hpack.HeaderField) (int, bool) {
	if len(pseudo) != 1 || pseudo[0].Name != ":status" || len(pseudo[0].Value) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(pseudo[0].Value)
	return status, err == nil && status >= 100
}

// refusal makes the error of a request of the error of its stream.
func refusal(err error) error {
	var stream http2.StreamError
	if errors.As(err, &stream) {
		switch {
		case stream.Code == http2.ErrCodeRefusedStream:
			return fmt.Errorf("%w: %w", ErrRefused, err)
		case errors.Is(stream.Cause, ErrHeaderTooLarge):
			return ErrHeaderTooLarge
		case errors.Is(stream.Cause, ErrBusy):
			return ErrBusy
		}
	}
	return err
}
