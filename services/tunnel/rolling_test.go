// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// balancer knows the replicas that are ready, as a load balancer does.
type balancer struct {
	mu       sync.Mutex
	replicas []*replica
	next     int
}

func (b *balancer) set(replicas ...*replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = replicas
}

// pick returns one replica after the other.
func (b *balancer) pick() *replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.replicas[b.next%len(b.replicas)]
}

// roam keeps an agent connected, somewhere: when its connection ends, and when a replica asks it to
// leave. It ends with the test.
func (b *balancer) roam(tb testing.TB, cluster string, api http.HandlerFunc) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var agents sync.WaitGroup
	connect := func(again chan<- struct{}) *agenttest.Agent {
		replica := b.pick()
		agent, err := agenttest.Dial(ctx, agenttest.Options{
			ID: "c-" + cluster, Handler: api, Addr: replica.addr, Token: replica.cluster(cluster),
			OnDrain: func(after time.Duration) { time.AfterFunc(after, func() { again <- struct{}{} }) },
		})
		if err != nil {
			return nil
		}
		agents.Go(func() {
			<-agent.Done()
			select {
			case again <- struct{}{}:
			case <-ctx.Done():
			}
		})
		return agent
	}
	agents.Go(func() {
		again := make(chan struct{}, 100)
		var current []*agenttest.Agent
		for again <- struct{}{}; ; {
			select {
			case <-ctx.Done():
				for _, agent := range current {
					agent.Close()
				}
				return
			case <-again:
			}
			agent := connect(again)
			for agent == nil && ctx.Err() == nil {
				agent = connect(again)
			}
			if agent != nil {
				current = append(current, agent)
			}
		}
	})
	tb.Cleanup(func() {
		cancel()
		agents.Wait()
	})
}

// load asks again and again through any replica that is ready, until it is stopped, and reports
// what was not answered.
type load struct {
	stop     context.CancelFunc
	answered atomic.Int64
	running  sync.WaitGroup
}

func (b *balancer) load(tb testing.TB, user string, clusters ...string) *load {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	for _, cluster := range clusters {
		for _, http2 := range []bool{false, true} {
			c := client(tb, http2)
			l.running.Go(func() {
				for ctx.Err() == nil {
					res, err := c.Do(b.pick().request(tb.Context(), http.MethodGet, user, cluster, "/", nil))
					if err != nil {
						tb.Errorf("%s: %v", cluster, err)
						return
					}
					body, _ := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if res.StatusCode != http.StatusNoContent {
						tb.Errorf("%s: got %d %s", cluster, res.StatusCode, body)
						return
					}
					l.answered.Add(1)
				}
			})
		}
	}
	return l
}

// await blocks until there are so many more answers.
func (l *load) await(tb testing.TB, more int64) {
	tb.Helper()
	want := l.answered.Load() + more
	await.True(tb, "more answers", func() bool { return l.answered.Load() >= want })
}

func (l *load) end() {
	l.stop()
	l.running.Wait()
}

func empty(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// TestRollingRestartDropsNoRequest replaces one replica after the other under load. A balancer
// takes a replica out before it stops.
func TestRollingRestartDropsNoRequest(t *testing.T) {
	replicas := startReplicas(t, 2, drainFor(25*time.Second)) // the default
	lb, clusters := &balancer{}, []string{"one", "two", "three"}
	lb.set(replicas...)
	for _, cluster := range clusters {
		replicas[0].access.grant("ada", cluster)
		lb.roam(t, cluster, empty)
	}
	for _, r := range replicas {
		for _, cluster := range clusters {
			r.reachesWith("ada", cluster, http.StatusNoContent)
		}
	}
	l := lb.load(t, "ada", clusters...)
	defer l.end()
	for i := range replicas {
		l.await(t, 50)
		old, other := replicas[i], replicas[1-i]
		lb.set(other)
		old.stop()
		if err := <-old.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		old.done <- nil
		l.await(t, 50)
		replicas[i] = other.another()
		lb.set(replicas...)
	}
	l.await(t, 50)
}

// TestDeadReplicaDropsNoRead loses a replica without a word, under reads through another one. Its
// routes are in Redis for half a minute more.
func TestDeadReplicaDropsNoRead(t *testing.T) {
	replicas := startReplicas(t, 3)
	people, dies, other := replicas[0], replicas[1], replicas[2]
	lb, agents, clusters := &balancer{}, &balancer{}, []string{"one", "two", "three"}
	lb.set(people)
	agents.set(dies)
	for _, cluster := range clusters {
		people.access.grant("ada", cluster)
		agents.roam(t, cluster, empty)
		people.reachesWith("ada", cluster, http.StatusNoContent)
	}
	agents.set(other)
	l := lb.load(t, "ada", clusters...)
	defer l.end()
	l.await(t, 50)
	dies.die()
	l.await(t, 200)
}

// TestF23RollingRestartEndsNothingHalfway has a request that takes long, and a watch, on the
// connection of a replica that stops.
func TestF23RollingRestartEndsNothingHalfway(t *testing.T) {
	replicas := startReplicas(t, 2, drainFor(time.Minute))
	leaves, stays := replicas[0], replicas[1]
	stays.access.grant("ada", "demo")
	finish := make(chan struct{})
	var late atomic.Int64 // requests on the old connection after the new one took over
	var moved atomic.Bool
	notice := make(chan time.Duration, 1)
	old := leaves.agentWith(agenttest.Options{
		ID: "old", OnDrain: func(after time.Duration) { notice <- after },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if moved.Load() {
				late.Add(1)
			}
			_, _ = io.WriteString(w, "begun\n")
			_ = http.NewResponseController(w).Flush()
			switch r.URL.Path {
			case "/long":
				<-finish
				_, _ = io.WriteString(w, "done\n")
			case "/api/v1/events":
				<-r.Context().Done()
			}
		}),
	}, "demo")
	stays.reaches("ada", "demo")
	var readers []*bufio.Reader
	for _, path := range []string{"/long", "/api/v1/events?watch=1"} {
		res, err := client(t, true).Do(stays.request(t.Context(), http.MethodGet, "ada", "demo", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		reader := bufio.NewReader(res.Body)
		if line, err := reader.ReadString('\n'); err != nil || line != "begun\n" {
			t.Fatalf("%s: got %q, %v", path, line, err)
		}
		readers = append(readers, reader)
	}

	leaves.stop()
	if after := <-notice; after < 0 || after > time.Minute {
		t.Errorf("the agent was asked to leave in %v, want it within the time to move", after)
	}
	if _, err := agenttest.Dial(t.Context(), agenttest.Options{
		Addr: leaves.addr, Token: leaves.cluster("demo"), ID: "back", Handler: http.HandlerFunc(empty),
	}); err == nil {
		t.Error("an agent was taken by a replica that stops")
	}
	stays.agentWith(agenttest.Options{ID: "new", Handler: http.HandlerFunc(echo)}, "demo")
	moved.Store(true)
	c := client(t, true)
	for range 20 {
		if status, body := stays.get(c, "ada", "demo", "/new"); status != 200 || !strings.HasPrefix(body, "GET /new") {
			t.Fatalf("got %d %q, want it from the new connection", status, body)
		}
	}
	if rest, err := io.ReadAll(readers[1]); err != nil || len(rest) != 0 {
		t.Errorf("watch: got %q, %v, want a clean end", rest, err)
	}
	close(finish)
	if rest, err := io.ReadAll(readers[0]); err != nil || string(rest) != "done\n" {
		t.Errorf("long request: got %q, %v, want it finished", rest, err)
	}
	<-old.Done()
	if err := <-leaves.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	leaves.done <- nil
	if late.Load() != 0 {
		t.Errorf("%d new requests went to the old connection", late.Load())
	}
}
