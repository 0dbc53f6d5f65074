// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package carrier

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
)

const (
	// maxChunk bounds a message of the stream. Larger messages need fewer writes, and delay the
	// data behind them for longer.
	maxChunk = 128 << 10
	// outerWindow is how much the hub may send ahead on the call that carries all streams. The
	// streams inside have windows of their own, which bound the memory.
	outerWindow = 32 << 20
	// The streams inside keep an idle call alive. Before there are any, these notice a dead peer.
	pingAfter   = 20 * time.Second
	pingTimeout = 20 * time.Second
)

// stream opens a call whose messages carry the bytes.
func (d *Dialer) stream(ctx context.Context, target *url.URL, header http.Header) (net.Conn, error) {
	transport := d.client(func(p *http.Protocols) {
		p.SetHTTP2(target.Scheme == "https")
		p.SetUnencryptedHTTP2(target.Scheme == "http")
	})
	transport.HTTP2 = &http.HTTP2Config{
		MaxReceiveBufferPerStream: outerWindow, MaxReceiveBufferPerConnection: outerWindow, MaxReadFrameSize: maxChunk,
		SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
	}
	// The call outlives this function, but not an attempt that takes too long.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	end := func() {
		cancel()
		transport.CloseIdleConnections()
	}
	call, err := open(life, &http.Client{Transport: transport, CheckRedirect: refuseRedirect}, target.String(), header)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	return &streamConn{call: call, end: end}, nil
}

type bidiStream = connect.BidiStreamForClientSimple[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]

// open makes the call and blocks until the hub has accepted it.
func open(ctx context.Context, client *http.Client, base string, header http.Header) (*bidiStream, error) {
	ctx, info := connect.NewClientContext(ctx)
	maps.Copy(info.RequestHeader(), header)
	// The bytes of a tunnel are often compressed already, and compressing secrets beside bytes of
	// other origin reveals them.
	uncompressed := connect.WithAcceptCompression("gzip", nil, nil)
	call, err := tunnelv1connect.NewTunnelServiceClient(client, base, uncompressed).Connect(ctx)
	if err != nil {
		return nil, err
	}
	// While there may be more to send, HTTP/2 does not check whether the call was canceled.
	ended := context.AfterFunc(ctx, func() { _ = call.CloseRequest() })
	defer ended()
	err = call.Send(&tunnelv1.ConnectRequest{})
	if _, answer := call.Receive(); answer != nil || err != nil { // the answer holds the reason of a refusal
		_ = call.CloseRequest()
		return nil, errors.Join(answer, err)
	}
	return call, nil
}

// streamConn is a call as a network connection.
type streamConn struct {
	call *bidiStream
	end  func()

	rest []byte // used only by the reader

	mu       sync.Mutex
	deadline *time.Timer
	expired  bool
}

var _ net.Conn = (*streamConn)(nil)

// Read implements net.Conn.
func (c *streamConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		message, err := c.call.Receive()
		if err != nil {
			return 0, c.explain(err)
		}
		c.rest = message.GetData()
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements net.Conn.
func (c *streamConn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		chunk := p[written:min(written+maxChunk, len(p))]
		if err := c.call.Send(&tunnelv1.ConnectRequest{Data: chunk}); err != nil {
			return written, c.explain(err)
		}
		written += len(chunk)
	}
	return written, nil
}

// Close implements net.Conn. Blocked calls fail.
func (c *streamConn) Close() error {
	c.end()
	// Until then HTTP/2 waits for more to send, and does not check whether the call was canceled.
	_ = c.call.CloseRequest()
	return nil
}

// A call has no separate deadlines for reading and writing. A passed deadline ends the connection,
// which is all that HTTP/2 needs.

// SetDeadline implements net.Conn.
func (c *streamConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline != nil {
		c.deadline.Stop()
		c.deadline = nil
	}
	if !t.IsZero() {
		c.deadline = time.AfterFunc(time.Until(t), c.expire)
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *streamConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *streamConn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

func (c *streamConn) expire() {
	c.mu.Lock()
	c.expired = true
	c.mu.Unlock()
	_ = c.Close()
}

func (c *streamConn) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expired {
		return os.ErrDeadlineExceeded
	}
	return err
}

// LocalAddr implements net.Conn.
func (c *streamConn) LocalAddr() net.Addr { return peer("") }

// RemoteAddr implements net.Conn.
func (c *streamConn) RemoteAddr() net.Addr { return peer(c.call.Peer().Addr) }

// peer is the address of the other end of a call.
type peer string

// Network implements net.Addr.
func (peer) Network() string { return "connect" }

// String implements net.Addr.
func (p peer) String() string { return string(p) }
