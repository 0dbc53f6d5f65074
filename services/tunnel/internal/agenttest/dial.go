// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// path is where the hub takes connections.
const path = "/tunnel/v1/connect"

// dial opens a connection over the transport that was asked for.
func (o Options) dial(ctx context.Context) (net.Conn, error) {
	switch o.Transport {
	case "", "upgrade":
		return o.upgrade(ctx)
	case "websocket":
		return o.webSocket(ctx)
	case "connect":
		return o.stream(ctx)
	default:
		return nil, fmt.Errorf("no transport %q", o.Transport)
	}
}

func (o Options) header() http.Header {
	header := http.Header{
		"Authorization": {"Bearer " + o.Token}, "Leat-Agent-Version": {"v0.0.0-test"}, "Leat-Connection-Id": {o.ID},
	}
	maps.Copy(header, o.Header)
	return header
}

func (o Options) scheme() string {
	if o.TLS != nil {
		return "https"
	}
	return "http"
}

// connect opens the connection below.
func (o Options) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.Dial != nil {
		return o.Dial(ctx)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (o Options) upgrade(ctx context.Context) (net.Conn, error) {
	conn, err := o.connect(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("dial hub: %w", err)
	}
	if o.TLS != nil {
		conn = tls.Client(conn, o.TLS)
	}
	reader := bufio.NewReader(conn)
	if err := o.handshake(conn, reader); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &bufferedConn{Conn: conn, reader: reader}, nil
}

func (o Options) handshake(conn net.Conn, reader *bufio.Reader) error {
	_, err := fmt.Fprintf(conn, "GET "+path+" HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n")
	if err == nil {
		err = o.header().Write(conn)
	}
	if err == nil {
		_, err = conn.Write([]byte("\r\n"))
	}
	if err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusSwitchingProtocols {
		return rpcerr.FromHTTP(res)
	}
	if got := res.Header.Get("Upgrade"); got != "leat-tunnel/1" {
		return fmt.Errorf("hub switched to %q", got)
	}
	return nil
}

// bufferedConn gives what was read ahead first.
type bufferedConn struct {
	net.Conn

	reader *bufio.Reader
}

// Read implements net.Conn.
func (c *bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

func (o Options) webSocket(ctx context.Context) (net.Conn, error) {
	transport := &http.Transport{TLSClientConfig: o.TLS.Clone(), DialContext: o.connect}
	socket, res, err := websocket.Dial(ctx, o.scheme()+"://"+o.Addr+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: o.header(), Subprotocols: []string{"leat-tunnel.1"},
	})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols {
			return nil, rpcerr.FromHTTP(res)
		}
		return nil, fmt.Errorf("dial WebSocket: %w", err)
	}
	socket.SetReadLimit(-1)
	return &socketConn{Conn: websocket.NetConn(context.WithoutCancel(ctx), socket, websocket.MessageBinary), socket: socket}, nil
}

type socketConn struct {
	net.Conn

	socket *websocket.Conn
}

// Close implements net.Conn.
func (c *socketConn) Close() error { return c.socket.CloseNow() }

func (o Options) stream(ctx context.Context) (net.Conn, error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(o.TLS != nil)
	protocols.SetUnencryptedHTTP2(o.TLS == nil)
	transport := &http.Transport{TLSClientConfig: o.TLS.Clone(), Protocols: protocols, DialContext: o.connect}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	client := tunnelv1connect.NewTunnelServiceClient(&http.Client{Transport: transport}, o.scheme()+"://"+o.Addr)
	call, info := connect.NewClientContext(ctx)
	maps.Copy(info.RequestHeader(), o.header())
	stream, err := client.Connect(call)
	if err == nil {
		err = stream.Send(&tunnelv1.ConnectRequest{})
	}
	if err == nil || errors.Is(err, io.EOF) { // who was refused at once learns why by receiving
		_, err = stream.Receive()
	}
	if encoding := info.ResponseHeader().Get("Connect-Content-Encoding"); err == nil && encoding != "" {
		err = fmt.Errorf("hub compresses the tunnel with %s", encoding)
	}
	if err != nil {
		cancel()
		transport.CloseIdleConnections()
		return nil, err
	}
	return &streamConn{call: stream, end: func() {
		cancel()
		transport.CloseIdleConnections()
	}}, nil
}

type streamConn struct {
	call *connect.BidiStreamForClientSimple[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]
	rest []byte
	end  func()
}

// Read implements net.Conn.
func (c *streamConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		message, err := c.call.Receive()
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
	if err := c.call.Send(&tunnelv1.ConnectRequest{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.end()
	return c.call.CloseRequest() // until then HTTP/2 waits for more to send, and does not look whether the call was canceled
}

// The addresses and deadlines of a call are not used.

// LocalAddr implements net.Conn.
func (*streamConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (*streamConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements net.Conn.
func (*streamConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (*streamConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (*streamConn) SetWriteDeadline(time.Time) error { return nil }
