// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"net"
	"net/http"

	"github.com/leatdev/leat/services/agent/internal/carrier"
)

// Accept serves the hub on a connection that the hub has opened, until it ends or ctx is done.
// Introduction are the headers that the agent has sent on it. If the hub wants the agent on another
// replica, the hub opens another connection, and then ends this one.
func (u *Uplink) Accept(ctx context.Context, conn net.Conn, introduction http.Header) {
	c := newConn(ctx, u, "", introduction.Get(headerConnectionID), &carrier.Conn{Conn: conn, Transport: carrier.Dialled})
	u.mu.Lock()
	u.conns[c] = true
	u.mu.Unlock()
	u.params.Logger.InfoContext(ctx, "tunnel connected", c.attrs()...)
	if c.serve(ctx) {
		select {
		case <-c.carried.closed:
			c.end()
		case <-ctx.Done():
			c.leave(ctx)
		}
	}
	u.params.Logger.InfoContext(ctx, "tunnel connection ended", c.attrs()...)
}
