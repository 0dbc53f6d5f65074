// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// switching is the answer after which the connection belongs to HTTP/2.
const switching = "HTTP/1.1 101 Switching Protocols\r\n" +
	"Connection: Upgrade\r\n" +
	"Upgrade: " + Protocol + "\r\n" +
	"\r\n"

// takeOver takes the connection from the HTTP server, accepts the upgrade, and begins HTTP/2. When
// it fails, the request was answered or its connection is closed.
func (h *Handler) takeOver(w http.ResponseWriter, r *http.Request, info session.Info) (*Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		err = fmt.Errorf("take connection over: %w", err)
		rpcerr.WriteHTTP(w, r, err)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.deps.HandshakeTimeout)
	defer cancel()
	early, err := accept(ctx, conn, buffered.Reader)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return h.deps.Dialer.Dial(ctx, conn, early, info)
}

// accept answers the upgrade and returns the bytes that the server had read beyond the request.
func accept(ctx context.Context, conn net.Conn, buffered *bufio.Reader) ([]byte, error) {
	early, err := buffered.Peek(buffered.Buffered())
	if err != nil {
		return nil, fmt.Errorf("read early bytes: %w", err)
	}
	early = append([]byte(nil), early...) // the server's buffer can go
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	if _, err := conn.Write([]byte(switching)); err != nil {
		return nil, fmt.Errorf("accept upgrade: %w", err)
	}
	// The server may have left deadlines of its own, and a tunnel has none.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("clear deadline: %w", err)
	}
	return early, nil
}
