// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package session knows which agents are connected to this replica and over which connections.
//
// An agent may hold several connections at once: while it reconnects, while one pod hands over to
// the next, or on purpose. New requests go to the newest connection that takes them; older ones
// continue with their requests. The parts of a connection (a transport, HTTP/2) stay behind the
// port [Conn].
package session

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Conn is one live connection to an agent. All methods may be called concurrently.
type Conn interface {
	// RoundTrip sends one request to the agent. The error wraps [ErrLost] when the connection,
	// rather than the request, failed before any byte of a response arrived, and [ErrFull] when the
	// agent's limit stops the request.
	http.RoundTripper
	// Status reports whether the connection takes another request now.
	Status() Status
	// LastSeen is when the agent was last heard of.
	LastSeen() time.Time
	// Leave asks the agent to connect elsewhere after a while, and to end this connection when it has.
	// It returns when the agent knows. The connection stays until then.
	Leave(ctx context.Context, after time.Duration) error
	// Done is closed when the connection has ended.
	Done() <-chan struct{}
	// Shutdown announces to the agent that no new request comes, waits until the running ones have
	// ended, and closes. When ctx ends first, it returns the context's error and leaves the
	// connection open.
	Shutdown(ctx context.Context) error
	// Close ends the connection and every request on it with an error.
	Close() error
}

// Status is the current ability of a connection.
type Status int

// The states of a connection.
const (
	// Ready connections take a request.
	Ready Status = iota
	// Full connections carry as many requests as the agent allows.
	Full
	// Closing connections take no request any more.
	Closing
)

// Info describes a connection as it began. It never changes.
type Info struct {
	// ID is the connection's id as its agent chose it.
	ID string
	// Cluster is the cluster's name. ClusterUID distinguishes two clusters of one name.
	Cluster    string
	ClusterUID string
	// RemoteAddress is where the agent connected from.
	RemoteAddress string
	// AgentVersion is the agent's version as it states it.
	AgentVersion string
	// Transport carries the connection: "upgrade", "websocket" or "connect"; "dialled" where the hub
	// has opened it.
	Transport string
	// Instance names the agent's process. Empty means that it sent none.
	Instance string
	// TokenID identifies the token that the agent connected with, and TokenExpires is when it ends.
	TokenID      string
	TokenExpires time.Time
	// Epoch orders the connections of a replica: a later one has the larger number. Zero lets the
	// table choose.
	Epoch uint64
	// ConnectedAt is when it began.
	ConnectedAt time.Time
}

// Session is a connection in a [Table].
type Session struct {
	info Info
	conn Conn

	// contested is set when another process has come with the token of this one. The table's lock
	// protects it.
	contested bool

	active atomic.Int64
	total  atomic.Int64
}

// Info returns the connection's description.
func (s *Session) Info() Info { return s.info }

// Epoch orders the sessions of a table: a later one has the larger number.
func (s *Session) Epoch() uint64 { return s.info.Epoch }

// Snapshot is the state of a session at one moment.
type Snapshot struct {
	Info

	// ActiveStreams is the number of requests under way.
	ActiveStreams int
	// TotalStreams is the number of requests since the connection began.
	TotalStreams int64
	// LastSeen is when the agent was last heard of.
	LastSeen time.Time
}

func (s *Session) snapshot() Snapshot {
	return Snapshot{
		Info:          s.info,
		ActiveStreams: int(s.active.Load()),
		TotalStreams:  s.total.Load(),
		LastSeen:      s.conn.LastSeen(),
	}
}

func (s *Session) begin() {
	s.active.Add(1)
	s.total.Add(1)
}

func (s *Session) end() { s.active.Add(-1) }
