// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
)

// maxChunk bounds a message of the stream. Larger ones cost fewer writes, and hold up what comes
// behind them for longer.
const maxChunk = 128 << 10

// Connect implements TunnelService: it carries the reverse connection in the messages of a stream,
// for ingresses through which only HTTP/2 calls pass. The call lasts as long as the connection.
// Requests must have come through [WithDeadlines].
func (h *Handler) Connect(ctx context.Context, stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error {
	info, err := h.admit(ctx, stream.RequestHeader(), stream.Peer().Addr)
	if err != nil {
		return err
	}
	info.Transport = transportConnect
	carrier := newStreamConn(ctx, stream)
	defer carrier.release()
	// The first message accepts the stream, before the agent has to answer anything.
	if err := stream.Send(&tunnelv1.ConnectResponse{}); err != nil {
		return err
	}
	conn, err := h.begin(ctx, carrier, nil, info)
	if err != nil {
		return err
	}
	select {
	case <-conn.Done():
	case <-ctx.Done():
		_ = conn.Close()
	}
	return nil
}

// Uncompressed returns the option that keeps [Handler.Connect] from compressing what it carries. It
// is often compressed already, and compressing secrets beside bytes of other origin reveals them.
func Uncompressed() connect.HandlerOption {
	return connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
		if spec.Procedure != tunnelv1connect.TunnelServiceConnectProcedure {
			return nil
		}
		return []connect.HandlerOption{connect.WithCompression("gzip", nil, nil)}
	})
}

type deadlinesKey struct{}

// WithDeadlines makes the writer's deadlines known to [Handler.Connect]: by them alone a blocked
// call of a stream can be ended.
func WithDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), deadlinesKey{}, http.NewResponseController(w))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// streamConn is a call as a network connection. A stream must not be touched once its handler has
// returned, and HTTP/2's reader would: so every use of it is counted, and release waits until there
// is none.
type streamConn struct {
	stream    *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]
	deadlines *http.ResponseController // nil in tests without a server
	remote    net.Addr

	rest []byte // only the reader uses it

	mu     sync.Mutex
	closed bool
	uses   sync.WaitGroup
}

var _ net.Conn = (*streamConn)(nil)

func newStreamConn(
	ctx context.Context, stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse],
) *streamConn {
	deadlines, _ := ctx.Value(deadlinesKey{}).(*http.ResponseController)
	return &streamConn{stream: stream, deadlines: deadlines, remote: callerAddr(stream.Peer().Addr)}
}

// use reports whether the stream may be used, which done ends.
func (c *streamConn) use() (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	c.uses.Add(1)
	return c.uses.Done, true
}

// Read implements net.Conn.
func (c *streamConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		done, ok := c.use()
		if !ok {
			return 0, net.ErrClosed
		}
		message, err := c.stream.Receive()
		done()
		if err != nil {
			return 0, err
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
		done, ok := c.use()
		if !ok {
			return written, net.ErrClosed
		}
		chunk := p[written:min(written+maxChunk, len(p))]
		err := c.stream.Send(&tunnelv1.ConnectResponse{Data: chunk})
		done()
		if err != nil {
			return written, err
		}
		written += len(chunk)
	}
	return written, nil
}

// Close implements net.Conn. It makes calls fail that are blocked, and does not wait for them.
func (c *streamConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		_ = c.setDeadlines(time.Unix(1, 0), true, true)
	}
	return nil
}

// release ends the connection and waits until the stream is no longer used.
func (c *streamConn) release() {
	_ = c.Close()
	c.uses.Wait()
}

func (c *streamConn) setDeadlines(t time.Time, read, write bool) error {
	if c.deadlines == nil {
		return nil
	}
	if read {
		if err := c.deadlines.SetReadDeadline(t); err != nil {
			return err
		}
	}
	if write {
		return c.deadlines.SetWriteDeadline(t)
	}
	return nil
}

// SetDeadline implements net.Conn.
func (c *streamConn) SetDeadline(t time.Time) error { return c.limit(t, true, true) }

// SetReadDeadline implements net.Conn.
func (c *streamConn) SetReadDeadline(t time.Time) error { return c.limit(t, true, false) }

// SetWriteDeadline implements net.Conn.
func (c *streamConn) SetWriteDeadline(t time.Time) error { return c.limit(t, false, true) }

func (c *streamConn) limit(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.setDeadlines(t, read, write)
}

// LocalAddr implements net.Conn.
func (c *streamConn) LocalAddr() net.Addr { return callerAddr("") }

// RemoteAddr implements net.Conn.
func (c *streamConn) RemoteAddr() net.Addr { return c.remote }

// callerAddr is the address of a caller.
type callerAddr string

// Network implements net.Addr.
func (callerAddr) Network() string { return "connect" }

// String implements net.Addr.
func (a callerAddr) String() string { return string(a) }
