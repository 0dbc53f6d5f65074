// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// resubscribe is how long a router waits at most before it listens for new routes again.
const resubscribe = 5 * time.Second

// Params are the collaborators of a [Router].
type Params struct {
	// Table has the connections of this replica. The router listens to it. Required.
	Table *session.Table
	// Self is this replica. Required with a store.
	Self Replica
	// Store and Peers lead to other replicas. Both nil: there are none.
	Store Store
	Peers Peers
	// Logger receives failures and recoveries of the store. Required.
	Logger *slog.Logger
}

// Router finds the way to agents. It is safe for concurrent use. Its locks protect maps and are
// never held while the store, a connection or another replica is used.
type Router struct {
	table     *session.Table
	self      Replica
	store     Store // nil: there are no other replicas
	peers     Peers
	logger    *slog.Logger
	announcer *announcer  // nil without a store
	routes    *routeCache // nil without a store
	counts    counts
	draining  atomic.Pointer[drainState] // nil unless agents are asked to go
}

// New returns a router. Routes are shared while [Router.Run] runs.
func New(p Params) *Router {
	r := &Router{table: p.Table, self: p.Self, store: p.Store, peers: p.Peers, logger: p.Logger}
	if p.Store == nil {
		return r
	}
	r.routes = newRouteCache(p.Self.ID)
	r.announcer = newAnnouncer(p.Store, p.Self, p.Logger)
	p.Table.Listen(r)
	return r
}

// Added implements [session.Listener].
func (r *Router) Added(s *session.Session) {
	r.announcer.added(s)
	r.routes.wake(s.Info().Cluster)
}

// Removed implements [session.Listener].
func (r *Router) Removed(s *session.Session) { r.announcer.removed(s) }

// Replicas returns how many replicas there are, this one included, as of the last sign of life.
func (r *Router) Replicas() int {
	if r.store == nil {
		return 1
	}
	return int(r.announcer.replicas.Load())
}

// Run shares routes until ctx ends: it publishes this replica's, keeps them alive, and receives
// others'. In the end it announces in the store that this replica is gone. It returns nil.
func (r *Router) Run(ctx context.Context) error {
	if r.store == nil {
		<-ctx.Done()
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() { r.announcer.run(ctx) })
	running.Go(func() { r.subscribe(ctx) })
	running.Wait()
	r.routes.close()
	return nil
}

// subscribe receives announcements until ctx ends, and begins again after a failure.
func (r *Router) subscribe(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		began := time.Now()
		err := r.store.Subscribe(ctx, r.hear)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > resubscribe {
			attempt = 0
		}
		r.logger.DebugContext(ctx, "routes of other replicas not heard", slog.Any("error", err))
		_ = backoff.Wait(ctx, backoff.Policy{Max: resubscribe}.Delay(attempt)) // the loop checks ctx
	}
}

// hear records the announcement of a route.
func (r *Router) hear(route Route) {
	if route.Replica.ID == r.self.ID {
		return
	}
	r.routes.add(route)
	if e := r.draining.Load(); e != nil {
		e.heard(route)
	}
}

// Ending is closed when everything endless has to end.
func (r *Router) Ending() <-chan struct{} { return r.table.Ending() }

// ConnectedUID returns the uid under which the newest connection of a cluster is known here, or "".
// It makes no call.
func (r *Router) ConnectedUID(cluster string) string {
	if uid := r.table.ConnectedUID(cluster); uid != "" || r.store == nil {
		return uid
	}
	route, _ := r.routes.newest(cluster)
	return route.ClusterUID
}

// Charge counts a request of a person whose way to the cluster another caller has reserved, as
// [session.Table.Charge] does.
func (r *Router) Charge(user string) (release func(), err error) { return r.table.Charge(user) }

// look asks the store for a cluster's routes, for all requests that wait for the flight. If there
// is no route, look waits a moment for an announcement, and asks once more: an announcement can be
// missed.
func (r *Router) look(cluster string, f *flight) {
	defer r.routes.land(cluster, f)
	wait := time.NewTimer(reconnectWait)
	defer wait.Stop()
	for last := false; ; last = true {
		r.routes.reading(cluster)
		ctx, cancel := context.WithTimeout(r.routes.base, storeTimeout)
		routes, err := r.store.Lookup(ctx, cluster)
		cancel()
		if err != nil {
			f.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
			r.routes.storeFailed()
			r.counts.failing.Add(1)
			r.logger.DebugContext(r.routes.base, "routes not looked up", slog.String("leat.cluster", cluster), slog.Any("error", err))
			return
		}
		if r.routes.learn(cluster, routes, last) {
			r.counts.found.Add(1)
			return
		}
		r.counts.absent.Add(1)
		if last || !r.await(cluster, f, wait.C) {
			return
		}
	}
}

// await waits until there is a way to the cluster, and then returns false; when the time is up it
// returns true.
func (r *Router) await(cluster string, f *flight, timeUp <-chan time.Time) bool {
	for {
		select {
		case <-f.changed:
			if _, known := r.routes.newest(cluster); known || f.here.Load() {
				return false
			}
		case <-timeUp:
			return true
		case <-r.routes.base.Done():
			f.err = ErrUnavailable
			return false
		}
	}
}

// recordFailure updates the cache of routes after a failed request.
func (r *Router) recordFailure(ctx context.Context, route Route, err error) {
	switch {
	case errors.Is(err, ErrUnreachable):
		if r.routes.suspect(route.Replica.ID) {
			r.logger.WarnContext(ctx, "replica not reached", slog.String("replica", route.Replica.ID),
				slog.String("server.address", route.Replica.URL), slog.Any("error", err))
		}
		r.routes.drop(route, lostAge) // the replica may announce something that it said before
	case errors.Is(err, ErrNotHere):
		r.routes.drop(route, RouteAge)
	case errors.Is(err, session.ErrLost):
		r.routes.drop(route, lostAge)
	}
}

// Known returns the number of clusters whose routes to other replicas are remembered.
func (r *Router) Known() int {
	if r.store == nil {
		return 0
	}
	return r.routes.size()
}
