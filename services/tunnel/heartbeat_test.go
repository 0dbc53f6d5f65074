// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestF26ManyAgentsHearInTime holds many agents, a few of which are deaf. The others' heartbeats are late in less than one case of a
// thousand, and none of them is taken for gone. The short form has as many heartbeats a second as 10,000 agents have with the
// settings of production; the long form has those agents and settings, over connections that need no files.
func TestF26ManyAgentsHearInTime(t *testing.T) {
	const deaf, beats = 10, 4
	agents, interval, long := 1000, 1500*time.Millisecond, os.Getenv("LEAT_FAULT_LONG") == "1"
	if long {
		agents, interval = 10_000, 15*time.Second
	}
	h := startManyHub(t, long, func(cfg *tunnel.Config) {
		cfg.HeartbeatInterval, cfg.MaxConnectsPerSecond = interval, 10_000
	})
	punctual := &punctuality{interval: interval, want: beats}
	var connecting sync.WaitGroup
	connected := make([]*hearing, agents)
	slots := make(chan struct{}, 16)
	for i := range agents {
		slots <- struct{}{}
		connected[i] = punctual.agent()
		connecting.Go(func() {
			defer func() { <-slots }()
			h.comeIn(connected[i], agenttest.Options{
				Addr: h.addr, Token: h.cluster(fmt.Sprint("c", i)), ID: fmt.Sprint("c", i), Transport: transports[i%3], Handler: http.HandlerFunc(echo),
			})
			if i < deaf {
				connected[i].agent.Freeze()
			}
		})
	}
	connecting.Wait()
	for i, a := range connected[deaf:] {
		select {
		case <-a.heard: // hangs where heartbeats do not come
		case <-a.agent.Done():
			t.Errorf("agent %d was taken for gone", deaf+i)
		}
	}
	late, all := punctual.late.Load(), punctual.all.Load()
	t.Logf("%d of %d heartbeats were late", late, all)
	if late*1000 > all {
		t.Errorf("got %d of %d heartbeats more than an interval late, want less than one of a thousand", late, all)
	}
}

// comeIn connects an agent. As agents do, it tries again when that fails: they may be too many for a moment.
func (h *hub) comeIn(a *hearing, opts agenttest.Options) {
	attached := make(chan struct{}, 1)
	opts.OnHeartbeat, opts.OnAttach = a.hear, func() { attached <- struct{}{} }
	if h.dial != nil {
		opts.Dial = h.connect
	}
	for h.tb.Context().Err() == nil {
		agent, err := agenttest.Dial(h.tb.Context(), opts)
		if err != nil {
			continue
		}
		select {
		case <-attached:
			a.agent = agent
			h.tb.Cleanup(agent.Close)
			return
		case <-agent.Done():
		}
	}
}

// startManyHub starts a hub that has room for many connections: without files it takes more of them than a process may open.
func startManyHub(t *testing.T, withoutFiles bool, change func(*tunnel.Config)) *hub {
	t.Helper()
	if !withoutFiles {
		return startHub(t, change)
	}
	checkLeaks(t)
	h := newHub(t)
	h.url = startDistributor(t, h)
	pipes := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	h.dial = pipes.dial
	return h.replicaAt(pipes, change)
}

// punctuality looks how far the heartbeats of each agent lie apart.
type punctuality struct {
	interval  time.Duration
	want      int // how many each has to hear
	all, late atomic.Int64
}

// hearing is an agent that hears heartbeats.
type hearing struct {
	*punctuality

	agent *agenttest.Agent
	heard chan struct{} // closed when it has heard as many as it has to

	mu    sync.Mutex
	times int
	last  time.Time
}

func (p *punctuality) agent() *hearing { return &hearing{punctuality: p, heard: make(chan struct{})} }

func (a *hearing) hear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.times++; a.times > 1 {
		a.all.Add(1)
		if now.Sub(a.last) > 2*a.interval {
			a.late.Add(1)
		}
	}
	if a.last = now; a.times == a.want {
		close(a.heard)
	}
}
