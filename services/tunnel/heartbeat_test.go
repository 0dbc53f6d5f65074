// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestF26ManyAgentsHearInTime holds many agents, a few of which never answer, with the settings of
// production: none of the others' heartbeats is late, and none of them is taken for gone. Time is
// virtual, so that what else the machine does is of no account.
func TestF26ManyAgentsHearInTime(t *testing.T) {
	t.Parallel()
	virtually(t, letAllIn, func(t *testing.T, h *hub) {
		if late, all := h.listen(400); late > 0 {
			t.Errorf("got %d of %d heartbeats more than an interval late, want none", late, all)
		}
	})
}

// TestF26TenThousandAgentsHearInTime does the same with the time of the machine: of all heartbeats
// less than one of a thousand is late.
func TestF26TenThousandAgentsHearInTime(t *testing.T) {
	if os.Getenv("LEAT_FAULT_LONG") != "1" {
		t.Skip("takes more than a minute; run with LEAT_FAULT_LONG=1")
	}
	h := newHub(t)
	pipes := loopback.NewPipes() // a process may not have as many files
	h.dial = pipes.Dial
	if late, all := h.replicaAt(pipes, letAllIn).listen(10_000); late*1000 > all {
		t.Errorf("got %d of %d heartbeats more than an interval late, want less than one of a thousand", late, all)
	}
}

// letAllIn has agents that come all at once not told to come again.
func letAllIn(cfg *tunnel.Config) { cfg.MaxConnectsPerSecond = 100_000 }

// listen connects agents and counts the heartbeats that they hear, and the late ones.
func (h *hub) listen(agents int) (late, all int64) {
	h.tb.Helper()
	const deaf, beats = 10, 4
	punctual := &punctuality{interval: 15 * time.Second, want: beats}
	over := make(chan struct{})
	var connecting sync.WaitGroup
	connected := make([]*hearing, agents)
	slots := make(chan struct{}, 16)
	for i := range agents {
		slots <- struct{}{}
		connected[i] = punctual.agent()
		opts := agenttest.Options{
			Addr: h.addr, Token: h.cluster(fmt.Sprint("c", i)), ID: fmt.Sprint("c", i), Dial: h.connect,
			Transport: transports[i%3], Handler: http.HandlerFunc(echo), OnHeartbeat: connected[i].hear,
		}
		if i < deaf {
			opts.OnHeartbeat = func() { <-over }
		}
		connecting.Go(func() {
			defer func() { <-slots }()
			h.comeIn(connected[i], opts)
		})
	}
	connecting.Wait()
	for i, a := range connected[deaf:] {
		select {
		case <-a.heard: // hangs where heartbeats do not come
		case <-a.agent.Done():
			h.tb.Errorf("agent %d was taken for gone", deaf+i)
		}
	}
	close(over)
	for _, a := range connected {
		a.agent.Close()
	}
	return punctual.late.Load(), punctual.all.Load()
}

// comeIn connects an agent. As agents do, it tries again when that fails: they may be too many for
// a moment.
func (h *hub) comeIn(a *hearing, opts agenttest.Options) {
	attached := make(chan struct{}, 1)
	opts.OnAttach = func() { attached <- struct{}{} }
	for h.tb.Context().Err() == nil {
		agent, err := agenttest.Dial(h.tb.Context(), opts)
		if err != nil {
			continue
		}
		select {
		case <-attached:
			a.agent = agent
			return
		case <-agent.Done():
		}
	}
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
