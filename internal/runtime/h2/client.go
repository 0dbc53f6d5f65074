// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/net/http2"
)

// Client is the client's side of a connection. It is an http.RoundTripper for requests to the
// server at the other end, whatever host they name. It is safe for concurrent use.
type Client struct{ *conn }

var _ http.RoundTripper = (*Client)(nil)

// NewClient begins HTTP/2 on a connection, which then belongs to the client. The settings must be
// valid.
func NewClient(nc net.Conn, settings Settings, budget *Budget) *Client {
	c := &Client{&conn{}}
	c.init(nc, clientRole{c.conn}, settings, budget)
	c.start(http2.ClientPreface, http2.Setting{ID: http2.SettingEnablePush})
	go c.run()
	return c
}

// RoundTrip implements http.RoundTripper. Its errors are [ErrFull]; [ErrRefused]; http2.StreamError
// if the peer has ended the request; the context's if the caller has; and others if the connection
// has ended.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	call := newCall(req)
	res, err := c.send(call)
	if err != nil {
		call.upload.closeBody()
	}
	return res, err
}

// send sends a request and returns its answer. If it fails the body belongs to the caller, unless
// an upload has begun.
func (c *Client) send(call *call) (*http.Response, error) {
	if err := c.begin(call); err != nil {
		return nil, err
	}
	if call.upload.hasBody() {
		go call.upload.run()
	}
	return call.await()
}

// begin sends the header of a request. Everything that can be wrong about the request itself is
// found before the lock is acquired. From the check whether the connection takes a request to the
// header's place in the output the lock is released only in awaitTurnLocked, which then checks
// again: ids of streams must grow in the order in which headers are sent.
func (c *Client) begin(call *call) error {
	if err := call.req.Context().Err(); err != nil {
		return err
	}
	head, err := newRequestHead(call.req, call.upload.length)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.readyLocked(); err != nil {
		return err
	}
	if head.size > c.peer.headerBytes {
		return fmt.Errorf("http2: request header of %d bytes, the peer takes %d", head.size, c.peer.headerBytes)
	}
	if err := c.awaitTurnLocked(call.req.Context()); err != nil {
		return err
	}
	if !c.account.budget.streams.take(1) {
		return ErrBusy
	}
	call.initLocked(&c.mux, call)
	call.out.isDone = !call.upload.hasBody()
	c.addLocked(&call.stream, c.last+1+c.last%2)
	c.out.encoder.begin()
	head.encode(&c.out.encoder)
	c.out.pending = c.out.withHeader(call.id, call.out.isDone)
	c.out.flushLocked()
	return nil
}

// awaitTurnLocked blocks until the header of a request may be sent. It fails if ctx has ended or
// the connection accepts no more requests. It releases the lock while it waits.
func (c *Client) awaitTurnLocked(ctx context.Context) error {
	if c.out.canAppendHeader(nil) {
		return nil
	}
	turn := &waiter{}
	turn.cond.L = &c.mu
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		turn.isOver = true
		turn.cond.Broadcast()
	})()
	c.out.awaitHeaderTurnLocked(turn)
	if turn.isOver && c.out.err == nil {
		return ctx.Err()
	}
	return c.readyLocked()
}

// Ready returns nil if a request can be sent. It returns [ErrFull] while the peer takes no more of
// them, and [ErrRefused] when it will never take one again.
func (c *Client) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readyLocked()
}

func (c *Client) readyLocked() error {
	switch {
	case c.out.err != nil:
		return fmt.Errorf("%w: %w", ErrRefused, c.out.err)
	case c.isLeaving, c.last >= maxStreamID-1:
		return fmt.Errorf("%w: the connection is about to end", ErrRefused)
	case len(c.streams) >= c.peer.streams:
		return ErrFull
	}
	return nil
}

// closeIfIdle closes a connection that carries no request. It reports whether it has done so.
func (c *Client) closeIfIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streams) > 0 {
		return false
	}
	c.failLocked(errClosed)
	return true
}

// Shutdown announces that no further request will come, waits for those under way, at most as long
// as ctx, and closes the connection unless ctx has ended.
func (c *Client) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	c.goAwayLocked(0)
	c.out.flushSoonLocked()
	c.awaitLocked(ctx, func() bool { return len(c.streams) == 0 })
	c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Close()
}
