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
)

const (
	// headerScope is scopeEnrol on a connection over which the hub lets nothing pass but enrolment.
	headerScope = "Leat-Home-Scope"
	scopeEnrol  = "enrol"
)

const (
	// A hub that vanished without a word is noticed by pings.
	pingAfter   = 20 * time.Second
	pingTimeout = 15 * time.Second
)

// Home carries the agent's calls to the hub over connections that the hub has opened. It waits until there is one. It is safe for
// concurrent use; the zero value is ready.
type Home struct {
	mu      sync.Mutex
	conns   []*way        // newest first
	changed chan struct{} // closed and made anew when one comes; nil while nobody waits
	closed  bool
}

var _ http.RoundTripper = (*Home)(nil)

// way is one connection.
type way struct {
	client *http.ClientConn
	// enrol: the hub does not know the agent yet.
	enrol bool
}

// RoundTrip implements http.RoundTripper. Which host is asked means nothing: there is none but the hub.
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

// pick returns the newest connection that lets the request pass and has not ended, or what is closed when another comes.
func (h *Home) pick(req *http.Request) (*http.ClientConn, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = slices.DeleteFunc(h.conns, func(w *way) bool { return w.client.Err() != nil })
	for _, w := range h.conns {
		if !w.enrol || req.URL.Path == distributorv1connect.DistributorServiceEnrollProcedure {
			return w.client, nil
		}
	}
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return nil, h.changed
}

// add begins HTTP/2 as a client on a connection of the hub's, and returns when it has.
func (h *Home) add(ctx context.Context, conn net.Conn, enrol bool) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // what encryption there is lies below
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
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// close ends all connections, and those to come.
func (h *Home) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, w := range h.conns {
		_ = w.client.Close()
	}
	h.conns = nil
}
