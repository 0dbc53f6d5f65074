// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/relaytest"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// conn is an agent's connection that a test ends.
type conn struct {
	name  string
	done  chan struct{}
	leave func(after time.Duration) error
	once  sync.Once
}

func newConn(name string) *conn { return &conn{name: name, done: make(chan struct{})} }

func (c *conn) RoundTrip(*http.Request) (*http.Response, error) {
	if c.Status() == session.Closing {
		return nil, session.ErrLost
	}
	return answer(c.name), nil
}

func (c *conn) Status() session.Status {
	select {
	case <-c.done:
		return session.Closing
	default:
		return session.Ready
	}
}

func (*conn) LastSeen() time.Time     { return time.Time{} }
func (c *conn) Done() <-chan struct{} { return c.done }

func (c *conn) Leave(_ context.Context, after time.Duration) error {
	if c.leave == nil {
		return errors.ErrUnsupported
	}
	return c.leave(after)
}

func (c *conn) Shutdown(context.Context) error { return c.Close() }

func (c *conn) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}

func answer(from string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"From": {from}}, Body: http.NoBody}
}

// replica is a replica in this process: its table, its router and, for the others, its door.
type replica struct {
	self   relay.Replica
	table  *session.Table
	router *relay.Router
	stop   context.CancelFunc
	ended  chan struct{}
}

// fleet is some replicas that share a store.
type fleet struct {
	store *relaytest.Store

	mu       sync.Mutex
	replicas map[string]*replica
	dead     map[string]bool
	sent     int // hops
}

func newFleet() *fleet {
	return &fleet{store: relaytest.NewStore(), replicas: map[string]*replica{}, dead: map[string]bool{}}
}

func (f *fleet) start(tb testing.TB, name string) *replica {
	tb.Helper()
	r := &replica{
		self:  relay.Replica{ID: name, URL: "http://" + name},
		table: session.NewTable(session.Limits{StreamsPerCluster: 10_000, StreamsPerUser: 10_000, SessionsPerCluster: 8}),
		ended: make(chan struct{}),
	}
	r.router = relay.New(relay.Params{
		Table: r.table, Self: r.self, Store: f.store, Peers: f, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.ended)
		_ = r.router.Run(ctx)
	}()
	f.mu.Lock()
	f.replicas[name] = r
	f.mu.Unlock()
	tb.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

// RoundTrip is the hop.
func (f *fleet) RoundTrip(req *http.Request, route relay.Route, target relay.Target) (*http.Response, error) {
	f.mu.Lock()
	f.sent++
	peer, dead := f.replicas[route.Replica.ID], f.dead[route.Replica.ID]
	f.mu.Unlock()
	if dead {
		return nil, relay.ErrUnreachable
	}
	stream, err := peer.table.Open(session.Target{Cluster: target.Cluster, ClusterUID: target.ClusterUID})
	if errors.Is(err, session.ErrOffline) {
		return nil, relay.ErrNotHere
	}
	if err != nil {
		return nil, err
	}
	defer stream.Release()
	return stream.RoundTrip(req)
}

func (f *fleet) kill(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead[name] = true
}

// connect adds an agent's connection to a replica.
func (r *replica) connect(tb testing.TB, cluster, name string) (*session.Session, *conn) {
	tb.Helper()
	c := newConn(name)
	s, _, err := r.table.Add(session.Info{ID: name, Cluster: cluster, ClusterUID: "uid"}, c)
	if err != nil {
		tb.Fatal(err)
	}
	return s, c
}

// ask sends a request through a replica and returns the name of the connection that answered.
func (r *replica) ask(ctx context.Context, method, cluster, body string) (string, error) {
	stream, err := r.router.Open(ctx, relay.Target{Target: session.Target{Cluster: cluster, ClusterUID: "uid", User: "ada"}})
	if err != nil {
		return "", err
	}
	defer stream.Release()
	req, err := http.NewRequestWithContext(ctx, method, "http://kubernetes/", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := stream.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	return res.Header.Get("From"), nil
}

func wantAnswer(tb testing.TB, r *replica, cluster, from string) {
	tb.Helper()
	if got, err := r.ask(tb.Context(), http.MethodGet, cluster, ""); err != nil || got != from {
		tb.Errorf("through %s: got %q, %v, want %q", r.self.ID, got, err, from)
	}
}
