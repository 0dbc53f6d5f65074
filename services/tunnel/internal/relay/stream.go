// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// maxMoves is how often one request goes elsewhere after an attempt that certainly did not reach
// the agent. After one that may have, it goes elsewhere once.
const maxMoves = 3

// Stream is the right to send one request to a cluster. It counts against the limits until it is
// released. It is not safe for concurrent use, but Release may be called at any time.
type Stream struct {
	router    *Router
	target    Target
	discharge func()
	once      sync.Once
	tried     map[string]bool // routes that have failed, by id

	mu    sync.Mutex
	here  *session.Stream // nil: the request goes to route's replica
	route Route
}

// Open reserves one request to a cluster: on a connection of this replica, or else on another
// replica that has one. It waits a moment for an agent that is not connected, because agents
// reconnect. It fails with the errors of [session.Table.Open], or with [ErrUnavailable].
func (r *Router) Open(ctx context.Context, target Target) (*Stream, error) {
	release := func() {}
	if target.User != "" {
		var err error
		if release, err = r.table.Charge(target.User); err != nil {
			return nil, err
		}
	}
	s := &Stream{router: r, target: target, discharge: release}
	s.target.User = "" // charged already
	if err := s.place(ctx); err != nil {
		release()
		return nil, err
	}
	return s, nil
}

// place finds the way for the request.
func (s *Stream) place(ctx context.Context) error {
	err := s.placeHere()
	if err == nil || s.router.store == nil || !unsent(err) {
		return err
	}
	for {
		route, flight, findErr := s.router.routes.find(s.target, s.tried)
		if flight != nil && flight.begin() {
			go s.router.look(s.target.Cluster, flight)
		}
		switch {
		case route.ID != "":
			s.set(nil, route)
			return nil
		case flight == nil:
			return worse(err, findErr)
		case s.placeHere() == nil: // the agent connected before the flight was there to be told
			return nil
		}
		select {
		case <-flight.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case s.placeHere() == nil:
			return nil
		case flight.err != nil:
			return worse(err, flight.err)
		}
	}
}

func (s *Stream) placeHere() error {
	here, err := s.router.table.Open(s.target.Target)
	if err == nil {
		s.set(here, Route{})
	}
	return err
}

// worse returns the error that is more useful to the caller: why the agent's connection here takes
// no request, or why there is no other.
func worse(here, elsewhere error) error {
	if errors.Is(here, session.ErrOffline) {
		return elsewhere
	}
	return here
}

func (s *Stream) set(here *session.Stream, route Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here, s.route = here, route
}

func (s *Stream) current() (*session.Stream, Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here, s.route
}

// Connection returns the id of the connection that the request is on at the moment, as its agent
// chose it.
func (s *Stream) Connection() string {
	here, route := s.current()
	if here != nil {
		return here.Session().Info().ID
	}
	return route.Connection
}

// RoundTrip sends the request. When its connection is lost before any byte of a response, or
// another replica turns out not to have it, the request is sent once more over another one if that
// is safe: if the agent has certainly not seen it, or it only reads; and if its body can be sent
// from the beginning.
func (s *Stream) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.router.store == nil {
		return s.here.RoundTrip(req)
	}
	body := keep(req)
	defer body.settle()
	var last error
	for moves, lost := 0, false; ; moves++ {
		attempt, whole := body.attempt(req)
		if !whole {
			return nil, last
		}
		res, err := s.send(attempt)
		if err == nil || moves == maxMoves || req.Context().Err() != nil {
			return res, err
		}
		again := !lost && errors.Is(err, session.ErrLost) && session.Repeatable(req)
		if !unsent(err) && !again || !s.move(req.Context(), err) {
			return nil, err
		}
		last, lost = err, lost || !unsent(err)
	}
}

func (s *Stream) send(req *http.Request) (*http.Response, error) {
	here, route := s.current()
	if here != nil {
		return here.RoundTrip(req)
	}
	s.router.counts.hops.Add(1)
	return s.router.peers.RoundTrip(req, route, s.target)
}

// move finds another way than the one that has failed, and reports whether there is one.
func (s *Stream) move(ctx context.Context, cause error) bool {
	here, route := s.current()
	if here == nil {
		if s.tried == nil {
			s.tried = map[string]bool{}
		}
		s.tried[route.ID] = true
		s.router.recordFailure(ctx, route, cause)
	}
	if err := s.place(ctx); err != nil {
		return false
	}
	if here != nil {
		here.Release()
	}
	s.router.counts.moved.Add(1)
	return true
}

// Release gives the reservation back. Releasing twice does nothing.
func (s *Stream) Release() {
	s.once.Do(func() {
		if here, _ := s.current(); here != nil {
			here.Release()
		}
		s.discharge()
	})
}
