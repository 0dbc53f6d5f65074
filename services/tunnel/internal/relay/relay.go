// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package relay finds the way to an agent when the hub has several replicas: an agent's connection
// ends on one of them, and people call any.
//
// A replica publishes a [Route] for each connection that it has, and one sign of life for itself. A
// route counts only while its replica lives. A request goes over a connection of this replica if
// there is one, without asking the store. Otherwise it goes in one hop to a replica that has one.
// Its route is found in memory or in the [Store], where concurrent requests share one look-up.
// Agents that are connected here stay reachable here, whatever happens to the store.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/leatdev/leat/services/tunnel/internal/session"
)

var (
	// ErrUnavailable means that the store does not answer and that nothing is known from before.
	ErrUnavailable = errors.New("routes are unavailable")
	// ErrNotHere is a replica's answer that it has no such connection (any more). Nothing reached
	// the agent.
	ErrNotHere = fmt.Errorf("replica has no connection to the agent: %w", session.ErrOffline)
	// ErrUnreachable means that a replica could not be reached. Nothing was sent.
	ErrUnreachable = fmt.Errorf("replica cannot be reached: %w", session.ErrOffline)
)

// Replica is one process of the tunnel service.
type Replica struct {
	// ID is different for each process, so that a restarted one is never taken for its predecessor.
	ID string
	// URL is where the other replicas reach it.
	URL string
}

// Route means that a replica has a connection to a cluster's agent. It never changes.
type Route struct {
	// ID is unique among the routes of all times.
	ID string
	// Cluster is the cluster's full name. ClusterUID distinguishes two clusters of one name.
	Cluster    string
	ClusterUID string
	// Connection is the connection's id as its agent chose it. It is for people.
	Connection string
	// Replica has the connection.
	Replica Replica
	// Epoch orders a cluster's routes: a newer connection has the larger number. The store gives
	// it; zero means that it has not yet.
	Epoch uint64
}

// Store is where replicas share their routes. All methods may be called concurrently, and none
// retries: after an error the outcome is unknown, and the caller may safely try again.
type Store interface {
	// Publish writes routes. One without an epoch is new: it gets one and is announced. One with an
	// epoch is kept alive, or restored if it was lost. It returns the epochs in the order of the
	// routes. Routes that are not published again vanish in the end.
	Publish(ctx context.Context, routes []Route) ([]uint64, error)
	// Withdraw removes exactly these routes.
	Withdraw(ctx context.Context, routes []Route) error
	// Renew announces that a replica lives. Kept is false when the store did not know that, or may
	// have forgotten some of what it was told: all routes of the replica have to be published again.
	Renew(ctx context.Context, replica Replica) (kept bool, err error)
	// Leave announces that a replica lives no more, and with it none of its routes.
	Leave(ctx context.Context, replica Replica) error
	// Lookup returns a cluster's routes to live replicas, newest first.
	Lookup(ctx context.Context, cluster string) ([]Route, error)
	// Replicas returns the live replicas.
	Replicas(ctx context.Context) ([]Replica, error)
	// Subscribe calls heard for every new route from soon on. It returns nil when ctx ends.
	// Announcements while the store is away are missed.
	Subscribe(ctx context.Context, heard func(Route)) error
}

// Target is where a request goes, on whose behalf, and how it may end.
type Target struct {
	session.Target

	// Endless means that the answer continues until one side ends it, and Watch that it may end at any
	// time without an error.
	Endless bool
	Watch   bool
}

// Peers carries requests to other replicas. Its methods may be called concurrently.
type Peers interface {
	// RoundTrip sends the agent's request to the route's replica. Errors are [ErrNotHere],
	// [ErrUnreachable], or the errors of [session.Conn] and [session.Table.Open].
	RoundTrip(req *http.Request, route Route, target Target) (*http.Response, error)
}

// unsent reports whether the request certainly did not reach the agent.
func unsent(err error) bool {
	return errors.Is(err, session.ErrOffline) || errors.Is(err, session.ErrFull) || errors.Is(err, session.ErrDraining) ||
		errors.Is(err, session.ErrRefused)
}

// NewestFirst sorts routes as [Store.Lookup] returns them.
func NewestFirst(routes []Route) []Route {
	slices.SortFunc(routes, func(a, b Route) int { return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(a.ID, b.ID)) })
	return routes
}
