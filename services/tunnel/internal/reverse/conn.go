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
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Conn is a connection on which the agent serves HTTP/2. It owns the network connection below it.
type Conn struct {
	client *h2.Client
	wire   *wire
	link   *link // nil: the agent knows none
}

var _ session.Conn = (*Conn)(nil)

// Dialer makes [Conn] values of connections that agents opened.
type Dialer struct {
	settings h2.Settings
	budget   *h2.Budget
	links    *Links
}

// NewDialer returns a dialer with these settings, whose connections the links keep alive and share
// the budget. It fails when the settings contradict HTTP/2.
func NewDialer(settings h2.Settings, budget *h2.Budget, links *Links) (*Dialer, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	return &Dialer{settings: settings, budget: budget, links: links}, nil
}

// Dial begins HTTP/2 on a connection and waits until the agent has answered on it, at most as long
// as ctx. The connection is closed when it fails. The early bytes were read from the connection
// beyond the agent's request; the info describes the connection.
func (d *Dialer) Dial(ctx context.Context, conn net.Conn, early []byte, info session.Info) (*Conn, error) {
	w := newWire(conn, early)
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	c := &Conn{client: h2.NewClient(w, d.settings, d.budget), wire: w}
	if err := d.links.attach(ctx, c, info); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// RoundTrip implements [session.Conn].
func (c *Conn) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.client.RoundTrip(req)
	switch {
	case err == nil:
	case errors.Is(err, h2.ErrFull):
		return nil, session.ErrFull
	case errors.Is(err, h2.ErrRefused):
		return nil, fmt.Errorf("%w: %w", session.ErrRefused, err)
	case c.isLost(err):
		return nil, fmt.Errorf("%w: %w", session.ErrLost, err)
	}
	return res, err
}

// isLost reports whether the connection, and not only the request, has failed.
func (c *Conn) isLost(err error) bool {
	var stream http2.StreamError
	return !errors.As(err, &stream) && c.Status() == session.Closing
}

// Status implements [session.Conn].
func (c *Conn) Status() session.Status {
	switch err := c.client.Ready(); {
	case err == nil:
		return session.Ready
	case errors.Is(err, h2.ErrFull):
		return session.Full
	}
	return session.Closing
}

// LastSeen implements [session.Conn]: it is when the last byte came in, an answered ping included.
func (c *Conn) LastSeen() time.Time { return c.client.LastHeard() }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.wire.closed }

// OnClose has call called when the connection has ended, in a goroutine of its own.
func (c *Conn) OnClose(call func()) { c.wire.onClose(call) }

// Leave implements [session.Conn]. An agent that does not support notices receives GOAWAY when it
// is time to leave.
func (c *Conn) Leave(ctx context.Context, after time.Duration) error {
	if c.link != nil {
		_, err := c.link.send(ctx, &tunnelv1.HeartbeatRequest{Drain: &tunnelv1.DrainNotice{ReconnectAfter: durationpb.New(after)}})
		return err
	}
	goAway := time.AfterFunc(after, func() { _ = c.Shutdown(ctx) })
	context.AfterFunc(ctx, func() { goAway.Stop() })
	return nil
}

// Shutdown implements [session.Conn]. The agent reads GOAWAY at once and may connect elsewhere
// while requests still run.
func (c *Conn) Shutdown(ctx context.Context) error { return c.client.Shutdown(ctx) }

// Close implements [session.Conn].
func (c *Conn) Close() error { return c.client.Close() }
