// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// stormOf is how many agents there are, a twentieth of them in the short form.
func stormOf(agents int) int {
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		return agents
	}
	return agents / 20
}

// TestF20StormIsOverInTime has a replica lose all of its agents at once, ten times as many as it
// lets in each second. All are back within 30 s, and the store was asked for none of them.
func TestF20StormIsOverInTime(t *testing.T) {
	t.Parallel()
	agents := stormOf(5000)
	limit := agents / 10 // as many for the 5000 as in production
	virtually(t, letIn(limit), func(t *testing.T, h *hub) {
		f := gather(t, agents, h)
		before, lost := h.keysAsked.Load(), time.Now()
		f.cut(h)
		f.wantBack(t, h, limit, lost, 30*time.Second, agents)
		if got := h.keysAsked.Load() - before; got != 0 || before > 2 {
			t.Errorf("the distributor was asked %d times for keys at first, and %d times when agents came back, want at most 2, and 0", before, got)
		}
		if got := h.access.count(); got != 0 {
			t.Errorf("the distributor was asked %d times for decisions, want none for agents", got)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.refused < agents/2 || f.unpaced > 0 {
			t.Errorf("agents were sent away %d times, %d of them without a time to come again; want at least half as often as there are agents, %d, and 0", f.refused, f.unpaced, agents)
		}
	})
}

// TestF21OneOfThreeReplicasIsRestarted has one die, and another one take its place 3 s later. The
// two that are left let no more of its agents in than they may, all are connected within 30 s, and
// the agents of the others notice nothing.
func TestF21OneOfThreeReplicasIsRestarted(t *testing.T) {
	t.Parallel()
	agents := stormOf(5000)
	limit := agents / 50
	virtually(t, letIn(limit), func(t *testing.T, h *hub) {
		died, stay := h.virtual(letIn(limit)), []*hub{h, h.virtual(letIn(limit))}
		f := gather(t, agents, append(stay, died)...)
		theirs, lost := f.held(died), time.Now()
		f.leadTo(stay...)
		f.cut(died)
		died.stop()
		<-time.After(3 * time.Second)
		all, came, held := append(stay, h.virtual(letIn(limit))), 0, 0
		f.leadTo(all...)
		for _, replica := range all {
			f.wantBack(t, replica, limit, lost, 30*time.Second, 1)
			came += f.since(lost, replica)
			held += f.held(replica)
		}
		if held != agents {
			t.Errorf("got %d agents connected, want %d", held, agents)
		}
		if came != theirs || theirs < agents/6 {
			t.Errorf("got %d connections after the end of the replica that held %d of %d, want those alone to come again", came, theirs, agents)
		}
	})
}

// letIn has so many agents let in each second.
func letIn(perSecond int) func(*tunnel.Config) {
	return func(cfg *tunnel.Config) { cfg.MaxConnectsPerSecond = perSecond }
}

// fleet is agents that do what Leat's does: they stay connected, to whichever replica the balancer
// leads them.
type fleet struct {
	hub     *hub
	agents  int
	ctx     context.Context
	running sync.WaitGroup

	mu       sync.Mutex
	replicas []*hub
	conns    map[net.Conn]*hub
	arrived  map[*hub][]time.Time
	up       map[*hub]int
	refused  int // attempts that the hub has refused since the last cut
	unpaced  int // the ones that received no time to come again
}

// gather starts agents and waits until all are connected. They are gone when the test ends.
func gather(t *testing.T, agents int, replicas ...*hub) *fleet {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fleet{
		hub: replicas[0], agents: agents, ctx: ctx, replicas: replicas,
		conns: map[net.Conn]*hub{}, arrived: map[*hub][]time.Time{}, up: map[*hub]int{},
	}
	t.Cleanup(func() {
		cancel()
		f.running.Wait()
	})
	for i := range agents {
		f.running.Go(func() { f.stay(i) })
	}
	<-time.After(2 * time.Minute) // they have been connected for the minute after which agents begin again
	up := 0
	for _, replica := range replicas {
		up += f.held(replica)
	}
	if up != agents {
		t.Fatalf("got %d agents connected, want %d", up, agents)
	}
	return f
}

// stay holds one agent's connection, as the agent's uplink does.
func (f *fleet) stay(i int) {
	policy := backoff.Policy{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Multiplier: 2}
	token := f.hub.cluster(fmt.Sprint("c", i))
	for attempt := 0; f.ctx.Err() == nil; attempt++ {
		began := time.Now()
		err := f.connect(agenttest.Options{Token: token, ID: fmt.Sprintf("c%d-%d", i, began.UnixNano()), Transport: transports[i%3]})
		if time.Since(began) >= time.Minute {
			attempt = 0
		}
		_ = backoff.Wait(f.ctx, policy.After(rpcerr.Paced(err), attempt))
	}
}

// connect opens a connection and returns when it has ended, or the error with which it was refused.
func (f *fleet) connect(opts agenttest.Options) error {
	f.mu.Lock()
	replica := f.replicas[rand.IntN(len(f.replicas))]
	f.mu.Unlock()
	opts.Addr, opts.Handler = replica.addr, http.HandlerFunc(echo)
	opts.Dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := replica.connect(ctx)
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns[conn] = replica
		}
		return conn, err
	}
	attached := false
	opts.OnAttach = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.arrived[replica] = append(f.arrived[replica], time.Now())
		f.up[replica]++
		attached = true
	}
	agent, err := agenttest.Dial(f.ctx, opts)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refused++
		if _, ok := rpcerr.RetryDelay(err); !ok {
			f.unpaced++
		}
		return err
	}
	select {
	case <-agent.Done():
	case <-f.ctx.Done():
		agent.Close()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if attached {
		f.up[replica]--
	}
	return nil
}

// leadTo has the balancer lead to these replicas alone.
func (f *fleet) leadTo(replicas ...*hub) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = replicas
}

// cut ends all connections to a replica.
func (f *fleet) cut(replica *hub) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused, f.unpaced = 0, 0
	for conn, to := range f.conns {
		if to == replica {
			_ = conn.Close()
			delete(f.conns, conn)
		}
	}
}

// held is how many agents are connected to a replica.
func (f *fleet) held(replica *hub) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up[replica]
}

// since is how many connections a replica has taken since then.
func (f *fleet) since(then time.Time, replica *hub) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.arrivals(then, replica))
}

func (f *fleet) arrivals(then time.Time, replica *hub) []time.Time {
	return slices.DeleteFunc(slices.Clone(f.arrived[replica]), func(at time.Time) bool { return at.Before(then) })
}

// wantBack waits as long as may be, and fails the test unless a replica has taken at least so many
// connections since then, and in no second more than a tenth above the limit.
func (f *fleet) wantBack(t *testing.T, replica *hub, limit int, then time.Time, within time.Duration, atLeast int) {
	t.Helper()
	<-time.After(time.Until(then.Add(within)))
	f.mu.Lock()
	defer f.mu.Unlock()
	came := f.arrivals(then, replica)
	if len(came) < atLeast {
		t.Fatalf("got %d connections within %v, want at least %d", len(came), within, atLeast)
	}
	slices.SortFunc(came, time.Time.Compare)
	most := limit*11/10 + 1
	for i := most; i < len(came); i++ {
		if took := came[i].Sub(came[i-most]); took < time.Second {
			t.Errorf("got %d connections within %v, want at most %d in a second", most+1, took, most)
			break
		}
	}
}
