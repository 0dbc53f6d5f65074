// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

const (
	// maxKnown is how many clusters a replica remembers routes of. Only clusters that were asked for
	// are among them.
	maxKnown = 10_000
	// freshAge is how long a route counts without asking the store again. No request waits for the
	// answer.
	freshAge = 30 * time.Second
	// absentAge is how long a cluster without a route counts as absent, and reconnectWait how long
	// a request waits for an agent that reconnects.
	absentAge     = time.Second
	reconnectWait = 2 * time.Second
	// lostAge is how long a route is avoided on which a request was lost, and suspectAge a replica
	// that is not reached.
	lostAge    = time.Second
	suspectAge = 5 * time.Second
	// storeTimeout bounds a question to the store, and storeRest is how long it is left alone when
	// it did not answer.
	storeTimeout = time.Second
	storeRest    = time.Second
)

// routeCache is a replica's memory of the routes of others: of clusters that were asked for, and of
// nothing else. It is safe for concurrent use and does no I/O.
type routeCache struct {
	self string
	// base is the context of look-ups, which requests share.
	base   context.Context //nolint:containedctx // flights outlive the request that began them
	cancel context.CancelFunc
	flying sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	entries  *lru.LRU[string, *entry]
	suspects map[string]time.Time // replicas that were not reached, and until when they are avoided
	resting  time.Time            // until when the store is left alone
}

// entry holds the routes of one cluster.
type entry struct {
	routes  []Route // newest first
	fresh   time.Time
	absent  time.Time
	avoided map[string]time.Time // routes that have failed, by id, and until when they are avoided
	added   []Route              // announced since the store was asked
	flight  *flight
}

// flight is one look-up, for all who ask meanwhile.
type flight struct {
	known   *routeCache
	begun   atomic.Bool
	here    atomic.Bool // the agent has connected to this replica
	changed wake.Signal // holds a token when there is news
	done    chan struct{}
	err     error // set before done is closed
}

func newRouteCache(self string) *routeCache {
	ctx, cancel := context.WithCancel(context.Background())
	entries, _ := lru.NewLRU[string, *entry](maxKnown, nil) // fails for sizes below one only
	return &routeCache{self: self, base: ctx, cancel: cancel, entries: entries, suspects: map[string]time.Time{}}
}

// begin reports whether the caller has to carry the flight out, which one caller has.
func (f *flight) begin() bool {
	if f.begun.Swap(true) {
		return false
	}
	f.known.mu.Lock()
	defer f.known.mu.Unlock()
	if f.known.closed {
		f.err = ErrUnavailable
		close(f.done)
		return false
	}
	f.known.flying.Add(1)
	return true
}

// close ends all flights and waits for them.
func (k *routeCache) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.flying.Wait()
}

// find returns the newest route for a target that was not tried. It may return a flight besides,
// which a caller has to begin, and has to wait for without a route. With neither, the error has the
// reason.
func (k *routeCache) find(target Target, tried map[string]bool) (Route, *flight, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	e := k.entry(target.Cluster)
	route, others := k.choose(e, target, tried, now)
	switch {
	case route.ID != "" && now.Before(e.fresh):
		return route, nil, nil
	case route.ID == "" && (now.Before(e.absent) || others && now.Before(e.fresh)):
		return Route{}, nil, session.ErrOffline
	case now.Before(k.resting):
		if route.ID != "" {
			return route, nil, nil
		}
		return Route{}, nil, ErrUnavailable
	}
	if e.flight == nil {
		e.flight = &flight{known: k, changed: wake.NewSignal(), done: make(chan struct{})}
	}
	return route, e.flight, nil
}

// choose returns the newest route that a target can use, and whether there are routes that only
// others can use. The lock is held.
func (k *routeCache) choose(e *entry, target Target, tried map[string]bool, now time.Time) (route Route, others bool) {
	for _, r := range e.routes {
		switch {
		case now.Before(e.avoided[r.ID]) || now.Before(k.suspects[r.Replica.ID]):
		case tried[r.ID] || target.ClusterUID != "" && r.ClusterUID != target.ClusterUID:
			others = true
		default:
			return r, others
		}
	}
	return Route{}, others
}

// entry returns the entry of a cluster, which it adds if there is none. The lock is held.
func (k *routeCache) entry(cluster string) *entry {
	e, ok := k.entries.Get(cluster)
	if !ok {
		e = &entry{}
		k.entries.Add(cluster, e)
	}
	return e
}

// newest returns a cluster's newest usable route.
func (k *routeCache) newest(cluster string) (Route, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.entries.Peek(cluster); ok {
		route, _ := k.choose(e, Target{}, nil, time.Now())
		return route, route.ID != ""
	}
	return Route{}, false
}

// size is how many clusters something is remembered of.
func (k *routeCache) size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.entries.Len()
}

// add takes an announced route, if the cluster is one that was asked for. A replica that announces
// is there.
func (k *routeCache) add(route Route) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.suspects, route.Replica.ID)
	e, ok := k.entries.Peek(route.Cluster)
	if !ok {
		return
	}
	e.insert(route)
	e.fresh, e.absent = time.Now().Add(freshAge), time.Time{}
	if e.flight != nil {
		e.added = append(e.added, route)
	}
	e.notify()
}

// wake notifies the requests that wait for a cluster that its agent has connected to this replica.
func (k *routeCache) wake(cluster string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.entries.Peek(cluster); ok {
		e.absent = time.Time{}
		if e.flight != nil {
			e.flight.here.Store(true)
		}
		e.notify()
	}
}

// reading begins to collect the routes that are announced while the store is read.
func (k *routeCache) reading(cluster string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entry(cluster).added = nil
}

// learn takes what the store has of a cluster, and reports whether there is a route that a request
// can use. When final, a cluster without one counts as absent.
func (k *routeCache) learn(cluster string, routes []Route, final bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	e := k.entry(cluster)
	e.routes = nil
	for _, route := range append(routes, e.added...) {
		if route.Replica.ID != k.self {
			e.insert(route)
		}
	}
	e.added = nil
	e.forget(now)
	if route, _ := k.choose(e, Target{}, nil, now); route.ID != "" {
		e.fresh = now.Add(freshAge)
		return true
	}
	if final {
		e.fresh, e.absent = time.Time{}, now.Add(absentAge)
	}
	return false
}

// land ends a flight.
func (k *routeCache) land(cluster string, f *flight) {
	defer k.flying.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.entries.Peek(cluster); ok && e.flight == f {
		e.flight, e.added = nil, nil
	}
	close(f.done)
}

// storeFailed leaves the store alone for a while.
func (k *routeCache) storeFailed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resting = time.Now().Add(storeRest)
}

// drop avoids a route for so long.
func (k *routeCache) drop(route Route, age time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.entries.Peek(route.Cluster); ok {
		e.forget(time.Now())
		e.avoided[route.ID] = time.Now().Add(age)
	}
}

// suspect avoids a replica for a while, and reports whether it was not avoided before.
func (k *routeCache) suspect(replica string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for id, until := range k.suspects {
		if now.After(until) {
			delete(k.suspects, id)
		}
	}
	_, before := k.suspects[replica]
	k.suspects[replica] = now.Add(suspectAge)
	return !before
}

// insert puts a route into its place, if it is not there yet.
func (e *entry) insert(route Route) {
	at := len(e.routes)
	for i, other := range e.routes {
		if other.ID == route.ID {
			return
		}
		if other.Epoch < route.Epoch && at == len(e.routes) {
			at = i
		}
	}
	e.routes = slices.Insert(slices.Clone(e.routes), at, route)
}

// forget drops what has been avoided for long enough.
func (e *entry) forget(now time.Time) {
	if e.avoided == nil {
		e.avoided = map[string]time.Time{}
	}
	for id, until := range e.avoided {
		if now.After(until) {
			delete(e.avoided, id)
		}
	}
}

// notify wakes the flight, if there is one.
func (e *entry) notify() {
	if e.flight == nil {
		return
	}
	e.flight.changed.Set()
}
