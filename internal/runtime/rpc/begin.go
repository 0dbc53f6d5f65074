// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/http2"
)

const (
	// beginTimeout is how long a server may take to send its first byte without TLS, which has
	// dialTimeout for that.
	beginTimeout = 10 * time.Second
	// anotherAfter is how long a server may take until another connection is tried beside the first, and mostTries how
	// many there are at once.
	anotherAfter = 2 * time.Second
	mostTries    = 3
)

// errMute does not match os.ErrDeadlineExceeded, which is about the deadline of a call.
var errMute = errors.New("the server accepts the connection and sends nothing")

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialBounded returns a dial function for servers of HTTP/2 without TLS. Its connections fail if the server does not send a
// byte in time. Who is outside connects so: the requests go with the preface, since a hub under attack reads connections of
// strangers in turns.
func dialBounded(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := conn.SetReadDeadline(time.Now().Add(beginTimeout)); err != nil {
			return nil, errors.Join(fmt.Errorf("bound the first answer: %w", err), conn.Close())
		}
		return &bounded{Conn: conn}, nil
	}
}

// bounded is a connection whose server has to send its first byte in time.
type bounded struct {
	net.Conn

	hasBegun bool // of the one goroutine that reads
}

// Read implements net.Conn.
func (c *bounded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case c.hasBegun:
	case n > 0:
		c.hasBegun = true
		if unset := c.SetReadDeadline(time.Time{}); err == nil {
			err = unset
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errMute
	}
	return n, err
}

// dialGreeted returns a dial function for services of a hub, which reach one another without TLS. A connection that it
// returns has come from a server that runs: the kernel accepts connections for a process that is frozen, too, and a
// transport would send all requests over such a connection and close those that it has made meanwhile. Behind a load
// balancer that takes replicas in turn, it could reach the frozen one each time.
//
// If a server is silent, up to two other connections are tried beside the first, which may lead to other replicas. The first
// server that answers has the requests (RFC 8305 does the same with addresses).
func dialGreeted(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		type try struct {
			conn net.Conn
			err  error
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		tries := make(chan try)
		begin := func() {
			conn, err := dialOne(ctx, dial, network, address)
			select {
			case tries <- try{conn, err}:
			case <-ctx.Done():
				if err == nil {
					_ = conn.Close() // another one was faster
				}
			}
		}
		go begin()
		begun, failed := 1, 0
		another := time.NewTicker(anotherAfter)
		defer another.Stop()
		for {
			select {
			case t := <-tries:
				if t.err == nil {
					return t.conn, nil
				}
				// The first one to be given up has waited longest.
				if failed++; failed == begun || errors.Is(t.err, errMute) {
					return nil, t.err
				}
			case <-another.C:
				if begun < mostTries {
					begun++
					go begin()
				}
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

// dialOne returns a connection whose server has sent something.
func dialOne(ctx context.Context, dial dialFunc, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c := &greeted{Conn: conn}
	err = c.greet()
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// greeted is a connection over which the beginning of a client's preface was sent, and the first byte of the server's has
// come. A server sends its settings when it has read these 24 bytes, whatever is requested (RFC 9113, 3.4).
type greeted struct {
	net.Conn

	first    [1]byte
	hasFirst bool // of the one goroutine that reads
	sent     int  // bytes of the preface that the transport has written, of the one goroutine that writes
}

// greet sends the preface, and waits for the first byte.
func (c *greeted) greet() error {
	if err := c.SetDeadline(time.Now().Add(beginTimeout)); err != nil {
		return fmt.Errorf("bound the first answer: %w", err)
	}
	_, err := c.Conn.Write([]byte(http2.ClientPreface))
	if err == nil {
		_, err = c.Conn.Read(c.first[:])
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errMute
	}
	if err != nil {
		return fmt.Errorf("begin HTTP/2: %w", err)
	}
	c.hasFirst = true
	return c.SetDeadline(time.Time{})
}

// Read implements net.Conn.
func (c *greeted) Read(p []byte) (int, error) {
	if c.hasFirst && len(p) > 0 {
		c.hasFirst = false
		return copy(p, c.first[:]), nil
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn. It leaves out the preface.
func (c *greeted) Write(p []byte) (int, error) {
	left := http2.ClientPreface[c.sent:]
	n := min(len(left), len(p))
	if !bytes.Equal(p[:n], []byte(left[:n])) {
		return 0, errors.New("the connection does not begin with the preface of HTTP/2")
	}
	c.sent += n
	if n == len(p) {
		return n, nil
	}
	written, err := c.Conn.Write(p[n:])
	return n + written, err
}
