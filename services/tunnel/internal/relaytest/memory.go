// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package relaytest is for tests of routes: a store in memory, and what every store has to do.
package relaytest

import (
	"context"
	"sync"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// Store is a store of routes in memory. Tests see its calls, and hold it up.
type Store struct {
	// Hold is called at the beginning of every call but Subscribe, with the call's name; its error
	// is the call's. Nil: the store answers at once. It is set before the store is used.
	Hold func(ctx context.Context, call string) error

	mu        sync.Mutex
	routes    map[string]map[string]relay.Route // by cluster and id
	replicas  map[string]alive
	listeners map[int]func(relay.Route)
	next      int
	last      uint64
	calls     map[string]int
	written   map[string]int
}

type alive struct {
	relay.Replica

	until time.Time
}

var _ relay.Store = (*Store)(nil)

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{listeners: map[int]func(relay.Route){}, calls: map[string]int{}, written: map[string]int{}}
	s.Flush()
	return s
}

// Flush forgets everything, as a Redis does that restarts.
func (s *Store) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes, s.replicas = map[string]map[string]relay.Route{}, map[string]alive{}
}

// Calls returns how often a method was called, and Written how many routes were passed to it.
func (s *Store) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Written returns how many routes were passed to a method in all.
func (s *Store) Written(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written[method]
}

func (s *Store) begin(ctx context.Context, method string, routes int) error {
	s.mu.Lock()
	s.calls[method]++
	s.written[method] += routes
	s.mu.Unlock()
	if s.Hold != nil {
		return s.Hold(ctx, method)
	}
	return nil
}

// Publish implements [relay.Store].
func (s *Store) Publish(ctx context.Context, routes []relay.Route) ([]uint64, error) {
	if err := s.begin(ctx, "Publish", len(routes)); err != nil {
		return nil, err
	}
	epochs, fresh, listeners := s.put(routes)
	for _, route := range fresh {
		for _, heard := range listeners {
			heard(route)
		}
	}
	return epochs, nil
}

func (s *Store) put(routes []relay.Route) (epochs []uint64, fresh []relay.Route, listeners []func(relay.Route)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, route := range routes {
		rows := s.routes[route.Cluster]
		if rows == nil {
			rows = map[string]relay.Route{}
			s.routes[route.Cluster] = rows
		}
		if old, ok := rows[route.ID]; ok {
			route.Epoch = old.Epoch
		} else if route.Epoch == 0 {
			s.last = max(s.last+1, uint64(time.Now().UnixMicro()))
			route.Epoch = s.last
			fresh = append(fresh, route)
		}
		rows[route.ID] = route
		epochs = append(epochs, route.Epoch)
	}
	for _, heard := range s.listeners {
		listeners = append(listeners, heard)
	}
	return epochs, fresh, listeners
}

// Withdraw implements [relay.Store].
func (s *Store) Withdraw(ctx context.Context, routes []relay.Route) error {
	if err := s.begin(ctx, "Withdraw", len(routes)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, route := range routes {
		delete(s.routes[route.Cluster], route.ID)
	}
	return nil
}

// Renew implements [relay.Store].
func (s *Store) Renew(ctx context.Context, replica relay.Replica) (bool, error) {
	if err := s.begin(ctx, "Renew", 0); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.lives(replica.ID)
	s.replicas[replica.ID] = alive{Replica: replica, until: time.Now().Add(relay.LivenessAge)}
	return kept, nil
}

func (s *Store) lives(replica string) bool { return time.Now().Before(s.replicas[replica].until) }

// Leave implements [relay.Store].
func (s *Store) Leave(ctx context.Context, replica relay.Replica) error {
	if err := s.begin(ctx, "Leave", 0); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replicas, replica.ID)
	return nil
}

// Lookup implements [relay.Store].
func (s *Store) Lookup(ctx context.Context, cluster string) ([]relay.Route, error) {
	if err := s.begin(ctx, "Lookup", 0); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var routes []relay.Route
	for id, route := range s.routes[cluster] {
		if !s.lives(route.Replica.ID) {
			delete(s.routes[cluster], id)
			continue
		}
		route.Replica = s.replicas[route.Replica.ID].Replica
		routes = append(routes, route)
	}
	return relay.NewestFirst(routes), nil
}

// Replicas implements [relay.Store].
func (s *Store) Replicas(ctx context.Context) ([]relay.Replica, error) {
	if err := s.begin(ctx, "Replicas", 0); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var replicas []relay.Replica
	for id, replica := range s.replicas {
		if s.lives(id) {
			replicas = append(replicas, replica.Replica)
		}
	}
	return replicas, nil
}

// Subscribe implements [relay.Store].
func (s *Store) Subscribe(ctx context.Context, heard func(relay.Route)) error {
	s.mu.Lock()
	s.next++
	id := s.next
	s.listeners[id] = heard
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, id)
	return nil
}

// Expire ends the life of every replica that gives no new sign of it.
func (s *Store) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, replica := range s.replicas {
		replica.until = time.Time{}
		s.replicas[id] = replica
	}
}
