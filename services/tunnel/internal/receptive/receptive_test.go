// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receptive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
)

// world is shared by the replicas, in virtual time.
type world struct {
	mu       sync.Mutex
	version  int
	clusters []receptive.Cluster
	members  map[string]time.Time
	down     bool // the store
	// open counts connections by cluster and replica, and dials all attempts by cluster.
	open  map[string]map[string]int
	dials map[string]int
	// calls counts calls of the store of leases by kind and second, and attempts dials by replica
	// and second.
	calls    map[string]map[int64]int
	attempts map[string]map[int64]int
	fail     error // of dials
	leases   lease.Store
}

func newWorld(clusters int) *world {
	w := &world{
		members: map[string]time.Time{}, open: map[string]map[string]int{}, dials: map[string]int{},
		calls: map[string]map[int64]int{}, attempts: map[string]map[int64]int{},
	}
	w.leases = &countingLeases{Store: leasemem.New(), world: w}
	for i := range clusters {
		w.clusters = append(w.clusters, receptive.Cluster{Name: fmt.Sprint("c", i), UID: fmt.Sprint("uid", i), Endpoint: "agent:1", Key: make([]byte, 32)})
	}
	return w
}

func (w *world) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	do()
}

var errDown = errors.New("store is down")

// List implements receptive.Directory.
func (w *world) List(_ context.Context, known string) ([]receptive.Cluster, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	version := fmt.Sprint("v", w.version)
	if version == known {
		return nil, version, nil
	}
	return slices.Clone(w.clusters), version, nil
}

// Beat implements receptive.Group.
func (w *world) Beat(_ context.Context, replica string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errDown
	}
	w.members[replica] = time.Now().Add(receptive.GroupAge)
	var members []string
	for member, until := range w.members {
		if time.Now().Before(until) {
			members = append(members, member)
		}
	}
	return members, nil
}

// Part implements receptive.Group.
func (w *world) Part(_ context.Context, replica string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.members, replica)
	return nil
}

func (w *world) count(table map[string]map[int64]int, key string) {
	if table[key] == nil {
		table[key] = map[int64]int{}
	}
	table[key][time.Now().Unix()]++
}

// most returns the largest count of a second.
func (w *world) most(table map[string]map[int64]int) (most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seconds := range table {
		for _, n := range seconds {
			most = max(most, n)
		}
	}
	return most
}

// dialled returns how often a cluster's agent was dialled.
func (w *world) dialled(uid string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[uid]
}

// connected counts the connections, and how many clusters have none or more than one.
func (w *world) connected() (total, none, twice int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, replicas := range w.open {
		for _, open := range replicas {
			total += open
		}
	}
	for _, c := range w.clusters {
		n := 0
		for _, open := range w.open[c.UID] {
			n += open
		}
		switch {
		case n == 0:
			none++
		case n > 1:
			twice++
		}
	}
	return total, none, twice
}

// countingLeases counts calls, and answers only while the store is up.
type countingLeases struct {
	lease.Store

	world *world
}

func (c *countingLeases) called(kind string) error {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.world.count(c.world.calls, kind)
	if c.world.down {
		return errDown
	}
	return nil
}

// Acquire implements lease.Store.
func (c *countingLeases) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	if err := c.called("acquire " + p.Owner); err != nil {
		return lease.Lease{}, err
	}
	return c.Store.Acquire(ctx, p)
}

// Renew implements lease.Store.
func (c *countingLeases) Renew(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Lease, error) {
	if err := c.called("renew " + l.Owner); err != nil {
		return lease.Lease{}, err
	}
	return c.Store.Renew(ctx, l, ttl)
}

// Release implements lease.Store.
func (c *countingLeases) Release(ctx context.Context, l lease.Lease) error {
	if err := c.called("release " + l.Owner); err != nil {
		return err
	}
	return c.Store.Release(ctx, l)
}

// replica is one Keeper.
type replica struct {
	world    *world
	id       string
	draining chan struct{}
	stop     func() // returns when it has ended
	keeper   *receptive.Keeper
	log      *bytes.Buffer
}

func (w *world) start(t *testing.T, id string, alone bool) *replica {
	t.Helper()
	r := &replica{world: w, id: id, draining: make(chan struct{}), log: &bytes.Buffer{}}
	p := receptive.Params{Self: id, Directory: w, Dialer: r, Draining: r.draining, Logger: slog.New(slog.NewTextHandler(r.log, nil))}
	if !alone {
		p.Group, p.Leases = w, w.leases
	}
	r.keeper = receptive.New(p)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.keeper.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	return r
}

// Dial implements receptive.Dialer.
func (r *replica) Dial(_ context.Context, c receptive.Cluster) (receptive.Conn, error) {
	w := r.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(w.attempts, r.id)
	w.dials[c.UID]++
	if w.fail != nil {
		return nil, w.fail
	}
	if w.open[c.UID] == nil {
		w.open[c.UID] = map[string]int{}
	}
	w.open[c.UID][r.id]++
	conn := &conn{done: make(chan struct{}), closed: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open[c.UID][r.id]--
	}}
	return conn, nil
}

type conn struct {
	once   sync.Once
	done   chan struct{}
	closed func()
}

func (c *conn) Done() <-chan struct{} { return c.done }

func (c *conn) Leave(context.Context) {
	c.once.Do(func() {
		close(c.done)
		c.closed()
	})
}

// TestF19DiallingReplicasWriteAtABoundedRate has two replicas dial 2,000 agents. One stops, and
// comes back.
func TestF19DiallingReplicasWriteAtABoundedRate(t *testing.T) {
	const agents, rate = 2000, 101 // in a second, and one that falls on its edge
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(agents)
		a, b := w.start(t, "a", false), w.start(t, "b", false)
		time.Sleep(time.Minute)
		if total, none, twice := w.connected(); total != agents || none != 0 || twice != 0 {
			t.Errorf("got %d connections, %d agents without and %d with two, want one for each", total, none, twice)
		}
		close(a.draining)
		time.Sleep(25 * time.Second)
		if _, none, _ := w.connected(); none != 0 {
			t.Errorf("got %d agents without a connection while a replica drains, want none", none)
		}
		a.stop()
		if total, none, twice := w.connected(); total != agents || none != 0 || twice != 0 {
			t.Errorf("after the stop: got %d connections, %d agents without and %d with two, want one for each", total, none, twice)
		}
		c := w.start(t, "c", false)
		time.Sleep(2 * time.Minute)
		if total, none, twice := w.connected(); total != agents || none != 0 || twice != 0 {
			t.Errorf("with another replica: got %d connections, %d agents without and %d with two, want one for each", total, none, twice)
		}
		b.stop() // without a drain, all at once
		c.stop()
		renewals := map[string]map[int64]int{}
		for kind, seconds := range w.calls {
			if kind[:5] == "renew" {
				renewals[kind] = seconds
				delete(w.calls, kind)
			}
		}
		if got := w.most(w.calls); got > rate {
			t.Errorf("got %d leases asked for or given back by a replica in a second, want at most %d", got, rate)
		}
		if got := w.most(w.attempts); got > rate {
			t.Errorf("got %d dials of a replica in a second, want at most %d", got, rate)
		}
		if got := w.most(renewals); got > agents/2 {
			t.Errorf("got %d renewals of a replica in a second, want them spread", got)
		}
	})
}

// TestDeadReplicaIsReplaced when what it leaves behind has expired: its sign of life, and its
// leases.
func TestDeadReplicaIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(50)
		for _, c := range w.clusters {
			if _, err := w.leases.Acquire(t.Context(), lease.AcquireParams{Key: "agent/" + c.UID, Owner: "dead", TTL: 30 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		w.members["dead"] = time.Now().Add(receptive.GroupAge)
		b := w.start(t, "b", false)
		time.Sleep(25 * time.Second)
		if total, _, _ := w.connected(); total != 0 {
			t.Errorf("got %d connections while the dead replica's leases last, want none", total)
		}
		time.Sleep(20 * time.Second)
		if total, none, _ := w.connected(); total != 50 || none != 0 {
			t.Errorf("got %d connections after they ended, want 50", total)
		}
		b.stop()
	})
}

// TestConnectionsOutliveTheStore takes the store of leases away for a while.
func TestConnectionsOutliveTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(20)
		a := w.start(t, "a", false)
		time.Sleep(10 * time.Second)
		w.change(func() { w.down = true })
		time.Sleep(5 * time.Minute)
		if total, none, _ := w.connected(); total != 20 || none != 0 {
			t.Errorf("got %d connections without a store, want 20", total)
		}
		w.change(func() { w.down = false })
		time.Sleep(time.Minute)
		if total, none, _ := w.connected(); total != 20 || none != 0 {
			t.Errorf("got %d connections when it is back, want 20", total)
		}
		a.stop()
		for uid, n := range w.dials {
			if n != 1 {
				t.Errorf("%s was dialled %d times, want once", uid, n)
			}
		}
	})
}

// TestFailingEndpointIsTriedLessAndLess, and at once when its address is corrected.
func TestFailingEndpointIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		w.fail = &receptive.Failure{Reason: receptive.ReasonUnreachable, Err: errors.New("nobody there")}
		a := w.start(t, "a", true)
		time.Sleep(10 * time.Minute)
		if got := w.dialled("uid0"); got < 10 || got > 60 {
			t.Errorf("got %d attempts in ten minutes, want some with up to a minute between them", got)
		}
		w.change(func() {
			w.fail = nil
			w.clusters[0].Endpoint = "agent:2"
		})
		time.Sleep(13 * time.Second)
		if total, _, _ := w.connected(); total != 1 {
			t.Error("the agent is not connected at its new address")
		}
		// A new key, or another address, ends what there is; so does the end of the cluster.
		w.change(func() { w.clusters[0].Key = bytes.Repeat([]byte{1}, 32) })
		before := w.dialled("uid0")
		time.Sleep(15 * time.Second)
		if total, _, _ := w.connected(); total != 1 || w.dialled("uid0") != before+1 {
			t.Errorf("got %d connections after %d dials, want one anew", total, w.dialled("uid0")-before)
		}
		w.change(func() { w.clusters = nil })
		time.Sleep(15 * time.Second)
		if total, _, _ := w.connected(); total != 0 {
			t.Error("a cluster that is gone is connected")
		}
		a.stop()
		if !bytes.Contains(a.log.Bytes(), []byte("unreachable")) {
			t.Errorf("the log does not tell why: %s", a.log)
		}
	})
}
