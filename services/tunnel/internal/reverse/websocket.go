// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// subprotocol names the tunnel to WebSocket, whose tokens have no "/".
const subprotocol = "leat-tunnel.1"

// acceptWebSocket carries the reverse connection in the binary messages of a WebSocket (RFC 6455),
// which nearly every ingress lets through. Where a message begins or ends means nothing.
func (h *Handler) acceptWebSocket(w http.ResponseWriter, r *http.Request, info session.Info) (*Conn, error) {
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{subprotocol}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, fmt.Errorf("accept WebSocket: %w", err) // it has answered
	}
	socket.SetReadLimit(-1) // a stream has no end, and is read in pieces
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.deps.HandshakeTimeout)
	defer cancel()
	conn := &webSocketConn{
		Conn: websocket.NetConn(context.WithoutCancel(r.Context()), socket, websocket.MessageBinary), socket: socket,
	}
	return h.deps.Dialer.Dial(ctx, conn, nil, info)
}

// webSocketConn closes at once. A WebSocket's own close waits for its peer, and HTTP/2 has said
// goodbye already.
type webSocketConn struct {
	net.Conn

	socket *websocket.Conn
}

// Close implements net.Conn.
func (c *webSocketConn) Close() error { return c.socket.CloseNow() }
