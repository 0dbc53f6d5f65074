// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/carrier"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

func TestTransportsInOrder(t *testing.T) {
	upgradeRequired := func(only string) func(*http.Request) error {
		return func(r *http.Request) error {
			via := r.Header.Get("Upgrade")
			if only == "websocket" && via == "websocket" || only == "connect" && via == "" {
				return nil
			}
			return rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED, "not through this ingress")
		}
	}
	for want, refuse := range map[string]func(*http.Request) error{
		"upgrade": nil, "websocket": upgradeRequired("websocket"), "connect": upgradeRequired("connect"),
	} {
		t.Run(want, func(t *testing.T) {
			noLeaks(t)
			h := startReplica(t, "r1", refuse)
			runUplink(t, func(p *uplink.Params) { p.URL = fixed(h.server.URL) })
			for range 2 { // the second time from memory
				c := h.next(time.Minute, 1)
				if c.via != want {
					t.Errorf("got %s, want %s", c.via, want)
				}
				for name, value := range map[string]string{"Authorization": "Bearer token-0", "Leat-Agent-Version": "v1"} {
					if got := c.header.Get(name); got != value {
						t.Errorf("%s: got %q, want %q", name, got, value)
					}
				}
				if c.header.Get("Leat-Agent-Instance") == "" || c.header.Get("Leat-Connection-Id") == "" {
					t.Errorf("got header %v, want instance and connection id", c.header)
				}
				if got := c.get(t, "/x"); got != "/x" {
					t.Errorf("got %q, want /x", got)
				}
				_ = c.raw.Close()
				h.server.CloseClientConnections()
			}
		})
	}
}

// TestTransportThatLetsNothingThrough has an ingress that accepts an Upgrade and then drops
// everything.
func TestTransportThatLetsNothingThrough(t *testing.T) {
	noLeaks(t)
	h := startReplica(t, "r1", nil)
	blackHole := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			h.take(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n\r\n")
		_ = conn.Close() // the hub gave up
	}))
	t.Cleanup(blackHole.Close)
	runUplink(t, func(p *uplink.Params) { p.URL = fixed(blackHole.URL) })
	if got := h.next(time.Minute, 1).via; got != "websocket" {
		t.Errorf("got %s, want websocket", got)
	}
}

func TestConfiguredTransports(t *testing.T) {
	noLeaks(t)
	h := startReplica(t, "r1", nil)
	runUplink(t, func(p *uplink.Params) {
		p.URL, p.Transports = fixed(h.server.URL), []carrier.Transport{carrier.Connect}
	})
	if got := h.next(time.Minute, 1).via; got != "connect" {
		t.Errorf("got %s, want connect alone", got)
	}
}
