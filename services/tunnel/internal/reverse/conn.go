// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/types/known/durationpb"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/flow"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Conn is a connection on which the agent serves HTTP/2. It owns the network connection below it.
type Conn struct {
	client *http2.ClientConn
	wire   *wire
	flow   *flow.Conn
	budget *flow.Budget
	link   *link // nil: the agent knows none
}

var _ session.Conn = (*Conn)(nil)

// Dialer makes [Conn] values of connections that agents opened.
type Dialer struct {
	transport *http2.Transport
	windows   flow.Windows
	budget    *flow.Budget
	links     *Links
}

// NewDialer returns a dialer with these settings, whose connections the links keep alive and share the budget. It fails when the
// settings contradict HTTP/2.
func NewDialer(settings Settings, budget *flow.Budget, links *Links) (*Dialer, error) {
	transport, err := settings.http2Transport()
	if err != nil {
		return nil, err
	}
	return &Dialer{transport: transport, windows: settings.Windows, budget: budget, links: links}, nil
}

// Dial begins HTTP/2 on a connection and waits until the agent has answered on it, at most as long as ctx. The
// connection is closed when it fails. The early bytes are what was read from the connection beyond the agent's request;
// the info describes the connection.
func (d *Dialer) Dial(ctx context.Context, conn net.Conn, early []byte, info session.Info) (*Conn, error) {
	w := newWire(conn, early)
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	counted := d.budget.Client(w, d.windows)
	client, err := d.transport.NewClientConn(counted)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin http2: %w", err), counted.Close())
	}
	c := &Conn{client: client, wire: w, flow: counted, budget: d.budget}
	if err := d.links.attach(ctx, c, info); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return c, nil
}

// RoundTrip implements [session.Conn].
func (c *Conn) RoundTrip(req *http.Request) (*http.Response, error) {
	if !c.client.ReserveNewRequest() {
		if c.Status() == session.Full {
			return nil, session.ErrFull
		}
		return nil, session.ErrRefused
	}
	res, err := c.client.RoundTrip(req)
	switch {
	case err == nil:
	case refused(err):
		return nil, fmt.Errorf("%w: %w", session.ErrRefused, err)
	case c.lost(err):
		return nil, fmt.Errorf("%w: %w", session.ErrLost, err)
	}
	if err == nil && res.Body != http.NoBody {
		res.Body = c.budget.Body(res.Body, nil)
	}
	return res, err
}

// The errors of HTTP/2's client for a stream that the peer's GOAWAY says was not begun, and for one that was not sent because the
// connection ends. They are not exported.
const (
	goneAway = "http2: Transport received Server's graceful shutdown GOAWAY"
	unusable = "http2: client conn not usable"
)

// refused reports whether the agent has certainly not begun the request (RFC 9113, 6.8 and 8.7): it is going away, or this
// connection is full.
func refused(err error) bool {
	var stream http2.StreamError
	if errors.As(err, &stream) {
		return stream.Code == http2.ErrCodeRefusedStream
	}
	return err.Error() == goneAway || err.Error() == unusable
}

// lost tells a failure of the connection from one of the request.
func (c *Conn) lost(err error) bool {
	var stream http2.StreamError
	return !errors.As(err, &stream) && c.Status() == session.Closing
}

// Status implements [session.Conn].
func (c *Conn) Status() session.Status {
	select {
	case <-c.wire.closed:
		return session.Closing
	default:
	}
	if c.client.CanTakeNewRequest() {
		return session.Ready
	}
	if state := c.client.State(); state.Closed || state.Closing {
		return session.Closing
	}
	return session.Full
}

// LastSeen implements [session.Conn]: it is when the last byte came in, an answered ping included.
func (c *Conn) LastSeen() time.Time { return c.wire.lastSeen() }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.wire.closed }

// OnClose has call called when the connection has ended, in a goroutine of its own.
func (c *Conn) OnClose(call func()) { c.wire.closes.add(call) }

// Leave implements [session.Conn]. An agent that cannot be told when to leave is told to leave when it is time.
func (c *Conn) Leave(ctx context.Context, after time.Duration) error {
	if c.link != nil {
		_, err := c.link.tell(ctx, &tunnelv1.HeartbeatRequest{Drain: &tunnelv1.DrainNotice{ReconnectAfter: durationpb.New(after)}})
		return err
	}
	goAway := time.AfterFunc(after, func() { _ = c.Shutdown(ctx) })
	context.AfterFunc(ctx, func() { goAway.Stop() })
	return nil
}

// Shutdown implements [session.Conn]. The agent reads GOAWAY at once and may connect elsewhere while requests still run.
func (c *Conn) Shutdown(ctx context.Context) error {
	// The goroutine can outlive the context only as long as the peer's buffers are full; Close, or the write timeout,
	// ends it.
	finished := make(chan error, 1)
	go func() { finished <- c.client.Shutdown(ctx) }()
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements [session.Conn].
func (c *Conn) Close() error { return c.client.Close() }
