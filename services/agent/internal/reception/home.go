// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reception

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/kit/wake"
)

const (
	// headerScope is scopeEnrol on a connection on which the hub accepts only enrolment.
	headerScope = "Leat-Home-Scope"
	scopeEnrol  = "enrol"
)

const (
	// Pings detect a hub that vanished silently.
	pingAfter   = 20 * time.Second
	pingTimeout = 15 * time.Second
)

// Home sends the agent's calls to the hub over connections that the hub has opened. A call blocks
// until there is such a connection. Home is safe for concurrent use, and the zero value is ready.
type Home struct {
	mu      sync.Mutex
	conns   []*way         // newest first
	changed wake.Broadcast // notified when one comes
	closed  bool
}

var _ http.RoundTripper = (*Home)(nil)

// way is one connection.
type way struct {
	client *http.ClientConn
	// enrol means that the hub does not know the agent yet.
	enrol bool
}

// RoundTrip implements http.RoundTripper. It ignores the request's host, because every connection
// leads to the hub.
func (h *Home) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		client, changed := h.pick(req)
		if client != nil {
			return client.RoundTrip(req)
		}
		select {
		case <-changed:
		case <-req.Context().Done():
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, context.Cause(req.Context())
		}
	}
}

// pick returns the newest open connection that accepts the request, or a channel that is closed
// when another one is added.
func (h *Home) pick(req *http.Request) (*http.ClientConn, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = slices.DeleteFunc(h.conns, func(w *way) bool { return w.client.Err() != nil })
	for _, w := range h.conns {
		if !w.enrol || req.URL.Path == distributorv1connect.DistributorServiceEnrollProcedure {
			return w.client, nil
		}
	}
	return nil, h.changed.Next()
}

// add begins HTTP/2 as a client on a connection of the hub, and returns after the handshake.
func (h *Home) add(ctx context.Context, conn net.Conn, enrol bool) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // encryption, if any, is below
	transport := &http.Transport{
		Protocols:   protocols,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	client, err := transport.NewClientConn(ctx, "http", "hub:80")
	if err != nil {
		_ = conn.Close()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = client.Close()
		return
	}
	h.conns = slices.Insert(h.conns, 0, &way{client: client, enrol: enrol})
	h.changed.Notify()
}

// close ends all present and future connections.
func (h *Home) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, w := range h.conns {
		_ = w.client.Close()
	}
	h.conns = nil
}
