// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package carrier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	"github.com/coder/websocket"
)

const (
	// protocol is the tunnel's name in the Upgrade header.
	protocol = "leat-tunnel/1"
	// subprotocol is its name in WebSocket, whose tokens cannot contain "/".
	subprotocol = "leat-tunnel.1"
)

// http1 selects the only protocol that can hand a connection over: HTTP/2 has no Upgrade.
func http1(p *http.Protocols) { p.SetHTTP1(true) }

// upgrade requests the connection itself.
func (d *Dialer) upgrade(ctx context.Context, target *url.URL, header http.Header) (net.Conn, error) {
	var raw net.Conn // the connection of the request; set before the answer arrives
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { raw = info.Conn },
	})
	request, err := http.NewRequestWithContext(traced, http.MethodGet, target.JoinPath(path).String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	client := d.client(http1)
	defer client.CloseIdleConnections()
	response, err := client.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, refusal(response)
	}
	body, ok := response.Body.(io.ReadWriteCloser)
	if got := response.Header.Get("Upgrade"); !ok || !strings.EqualFold(got, protocol) {
		return nil, errors.Join(fmt.Errorf("peer switched to %q, want %q", got, protocol), response.Body.Close())
	}
	return &turnedConn{Conn: raw, body: body}, nil
}

// turnedConn is the connection of a completed HTTP/1.1 request. Its body first returns what was
// read ahead: the hub's first frames may arrive in one packet with its answer.
type turnedConn struct {
	net.Conn

	body io.ReadWriteCloser
}

// NetConn returns the connection below for HTTP/2.
func (c *turnedConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *turnedConn) Read(p []byte) (int, error) { return c.body.Read(p) }

// Close implements net.Conn.
func (c *turnedConn) Close() error { return c.body.Close() }

// webSocket opens a WebSocket (RFC 6455). It disables compression, which would be costly and
// useless: the data inside is compressed already, or encrypted.
func (d *Dialer) webSocket(ctx context.Context, target *url.URL, header http.Header) (net.Conn, error) {
	client := d.client(http1)
	defer client.CloseIdleConnections()
	socket, response, err := websocket.Dial(ctx, target.JoinPath(path).String(), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: client, CheckRedirect: refuseRedirect}, HTTPHeader: header,
		Subprotocols: []string{subprotocol}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		if response != nil && response.StatusCode >= http.StatusBadRequest {
			return nil, refusal(response)
		}
		return nil, err
	}
	if socket.Subprotocol() != subprotocol {
		return nil, errors.Join(fmt.Errorf("peer chose %q, want %q", socket.Subprotocol(), subprotocol), socket.CloseNow())
	}
	socket.SetReadLimit(-1) // a stream has no end, and is read in pieces
	conn := websocket.NetConn(context.WithoutCancel(ctx), socket, websocket.MessageBinary)
	return &webSocketConn{Conn: conn, socket: socket}, nil
}

// refuseRedirect keeps a token from being sent to the target of a redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// webSocketConn closes immediately. A WebSocket's own close waits for its peer, and HTTP/2 has
// ended the connection already.
type webSocketConn struct {
	net.Conn

	socket *websocket.Conn
}

// Close implements net.Conn.
func (c *webSocketConn) Close() error { return c.socket.CloseNow() }
