// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

var (
	// ErrBroken marks an answer that is not, or not completely, what the Git protocol prescribes.
	ErrBroken = errors.New("broken git protocol")
	// errUnsupported marks a repository of a kind that this back end cannot mirror.
	errUnsupported = errors.New("unsupported kind of repository")
)

const dialTimeout = 15 * time.Second

// Session is one conversation with an upstream: advertise once, then fetch at most once. It is for
// one goroutine.
type Session interface {
	// Advertise lists what the upstream has.
	Advertise(ctx context.Context) (*Offer, error)
	// Fetch returns the pack that answers the request. The caller closes it.
	Fetch(ctx context.Context, req Request) (io.ReadCloser, error)
	Close() error
}

// Request asks for a pack in one round.
type Request struct {
	// Wants are the objects to send, with all that they lead to.
	Wants []string
	// Haves are commits that need not be sent again.
	Haves []string
	// Thin lets the pack lean on objects outside of it, which a pack on disk must not.
	Thin bool
	// Blobless leaves out the content of files, but for what Wants name themselves. Only an [Offer]
	// that says so can.
	Blobless bool
}

// Dial opens a session. Nothing is sent before the guard has agreed.
func (c *Client) Dial(ctx context.Context, p mirror.FetchParams) (Session, error) {
	def, err := c.effective(p.Definition)
	if err != nil {
		return nil, err
	}
	t, err := parseTarget(def)
	if err != nil {
		return nil, err
	}
	if t.endpoint.Protocol == "ssh" {
		return c.dialSSH(ctx, p, t, "git-upload-pack "+shellQuote(t.endpoint.Path))
	}
	return c.newHTTPSession(p, t)
}

// target is a definition that was found usable.
type target struct {
	def      mirror.Definition
	endpoint *transport.Endpoint
}

// dialer makes connections that ask the guard before every write: a replica that was frozen past
// its lease sends nothing when it wakes up.
type dialer struct {
	net.Dialer
	guard    func() error
	received func(bytes int) // nil: nobody counts
}

// Dial implements proxy.Dialer, which wants it beside DialContext.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects, if the guard agrees.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := d.guard(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return guardedConn{Conn: conn, guard: d.guard, received: d.received}, nil
}

type guardedConn struct {
	net.Conn
	guard    func() error
	received func(bytes int)
}

// Read implements net.Conn.
func (c guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.received != nil && n > 0 {
		c.received(n)
	}
	return n, err
}

// Write implements net.Conn. Where the guard does not agree the connection ends: who waits for an
// answer to what was never sent would wait for long.
func (c guardedConn) Write(p []byte) (int, error) {
	if err := c.guard(); err != nil {
		_ = c.Close() // sends no bytes
		return 0, err
	}
	return c.Conn.Write(p)
}
