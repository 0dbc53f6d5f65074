// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

var (
	// errBroken marks an answer that is not, or not completely, what the Git protocol prescribes.
	errBroken = errors.New("broken git protocol")
	// errUnsupported marks a repository of a kind that this back end cannot mirror.
	errUnsupported = errors.New("unsupported kind of repository")
)

const dialTimeout = 15 * time.Second

// session is one conversation with an upstream: advertise once, then fetch at most once.
type session interface {
	// advertise lists what the upstream has.
	advertise(ctx context.Context) (*offer, error)
	// fetch returns the pack that answers the request. The caller closes it.
	fetch(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error)
	Close() error
}

// dial opens a session. Nothing is sent before the guard has agreed.
func (g *Git) dial(ctx context.Context, p mirror.FetchParams) (session, error) {
	t, err := parseTarget(p.Definition)
	if err != nil {
		return nil, err
	}
	d := &dialer{guard: p.Guard}
	if t.endpoint.Protocol == "ssh" {
		return dialSSH(ctx, d, t, g)
	}
	return newHTTPSession(d, t, g.agent)
}

// target is a definition that was found usable.
type target struct {
	def      mirror.Definition
	endpoint *transport.Endpoint
}

// dialer makes connections that ask the guard before every write: a replica that was frozen past its lease sends nothing
// when it wakes up.
type dialer struct {
	net.Dialer
	guard func() error
}

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
	return guardedConn{Conn: conn, guard: d.guard}, nil
}

type guardedConn struct {
	net.Conn
	guard func() error
}

// Write implements net.Conn.
func (c guardedConn) Write(p []byte) (int, error) {
	if err := c.guard(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// encodeRequest writes a whole request: wants, haves, done.
func encodeRequest(w io.Writer, req *packp.UploadPackRequest) error {
	if err := req.UploadRequest.Encode(w); err != nil {
		return fmt.Errorf("send wants: %w", err)
	}
	if err := req.UploadHaves.Encode(w, false); err != nil {
		return fmt.Errorf("send haves: %w", err)
	}
	if err := pktline.NewEncoder(w).EncodeString("done\n"); err != nil {
		return fmt.Errorf("send done: %w", err)
	}
	return nil
}

// decodePack reads past the acknowledgements and returns the pack that follows. Closing it closes body.
func decodePack(body io.ReadCloser, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	resp := packp.NewUploadPackResponse(req)
	if err := resp.Decode(body); err != nil {
		return nil, errors.Join(fmt.Errorf("read acknowledgements: %w", err), body.Close())
	}
	var pack io.Reader = resp
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, resp)
	}
	return readCloser{pack, body}, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}
