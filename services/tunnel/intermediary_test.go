// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/chaos"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestF27PingsEatenAndIdleConnectionsCut has a load balancer in between that ends connections
// without bytes and lets no PING frame pass. Heartbeats keep the connection open, here for twice as
// long as it may be silent.
func TestF27PingsEatenAndIdleConnectionsCut(t *testing.T) {
	const heartbeat, idle = 100 * time.Millisecond, 2 * time.Second
	for _, transport := range []string{"upgrade", "websocket", "connect"} {
		t.Run(transport, func(t *testing.T) {
			h := startHub(t, func(cfg *tunnel.Config) { cfg.HeartbeatInterval = heartbeat })
			proxy := chaos.Start(t, chaos.Params{Target: h.addr})
			proxy.EatPings()
			proxy.IdleCut(idle)
			agent := agenttest.Connect(t, agenttest.Options{
				ID: "idle", Addr: proxy.Addr(), Token: h.cluster("demo"), Transport: transport, Handler: http.NotFoundHandler(),
			})
			h.await("the heartbeats of two idle times, or the end", func() bool {
				return agent.Heartbeats() >= int(2*idle/heartbeat) || isDone(agent)
			})
			if isDone(agent) {
				t.Error("the connection was cut")
			}
			if got := proxy.Accepted(); got != 1 {
				t.Errorf("connections: got %d, want the first one only", got)
			}
		})
	}
}

func isDone(agent *agenttest.Agent) bool {
	select {
	case <-agent.Done():
		return true
	default:
		return false
	}
}
