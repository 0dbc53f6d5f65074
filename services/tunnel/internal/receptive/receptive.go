// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package receptive keeps this replica connected to the agents that it has to dial: the agents of
// clusters that may not open connections.
//
// Of several replicas one dials each cluster. Rendezvous hashing over the replicas that dial
// selects the replica, and a lease by the cluster's uid keeps two from doing it at once. The lease
// is needed to dial and not to stay connected, so that a store that is away ends nothing. Whatever
// happens, a replica asks for leases, gives them up and dials at a bounded rate.
package receptive

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"time"
)

const (
	// perSecond bounds how many leases a replica asks for or gives up in a second, and how many
	// agents it dials.
	perSecond = 100
	// listEvery is the mean time between two listings of the clusters, and beatEvery between two signs
	// of life.
	listEvery = 10 * time.Second
	beatEvery = 3 * time.Second
	// storeTimeout bounds one call.
	storeTimeout = 5 * time.Second
	// leaseTTL is for how long no replica dials an agent whose replica died, and GroupAge for how long
	// such a replica counts.
	leaseTTL = 30 * time.Second
	// GroupAge is the age that groups keep.
	GroupAge = 30 * time.Second
	// handover is for how long a replica stays connected to an agent that is another's to dial by
	// now.
	handover = 15 * time.Second
	// leaveTimeout is how long requests may continue over a connection that is replaced.
	leaveTimeout = time.Minute
	// stable is how long a connection has to live for the next failure to count as the first.
	stable = time.Minute
	// firstPause and maxPause bound the pauses between attempts at one endpoint.
	firstPause = 500 * time.Millisecond
	maxPause   = time.Minute
)

// Cluster is a cluster whose agent is dialled.
type Cluster struct {
	// Name and UID are the cluster's.
	Name, UID string
	// Endpoint is where its agent is dialled, host:port.
	Endpoint string
	// Key is the key that its agent has enrolled. Empty: none has, and it is dialled for that
	// alone.
	Key ed25519.PublicKey
	// IdentityUID is the uid in the tokens of its agent.
	IdentityUID string
}

func (c Cluster) equal(o Cluster) bool {
	return c.Name == o.Name && c.UID == o.UID && c.Endpoint == o.Endpoint && c.IdentityUID == o.IdentityUID && bytes.Equal(c.Key, o.Key)
}

// Directory knows the clusters.
type Directory interface {
	// List returns the clusters and the version of the list. Where that is the known one, it
	// returns it and no clusters.
	List(ctx context.Context, known string) (clusters []Cluster, version string, err error)
}

// Group is the replicas that dial.
type Group interface {
	// Beat announces that a replica dials, for [GroupAge], and returns the ids of all that do.
	Beat(ctx context.Context, replica string) ([]string, error)
	// Part announces that it no longer does.
	Part(ctx context.Context, replica string) error
}

// Dialer connects to agents. It may be called concurrently.
type Dialer interface {
	// Dial connects to a cluster's agent. An error is a *[Failure].
	Dial(ctx context.Context, cluster Cluster) (Conn, error)
}

// Conn connects this replica to an agent.
type Conn interface {
	// Done is closed when the agent has to be dialled again: because a connection was lost, or
	// [Conn.Leave] was called.
	Done() <-chan struct{}
	// Leave waits until running requests have ended or ctx ends, and closes. It may be called
	// twice.
	Leave(ctx context.Context)
}

// Reason is one word for why an agent cannot be dialled.
type Reason string

// The reasons.
const (
	// ReasonAddress: the endpoint is an address that must not be dialled.
	ReasonAddress Reason = "address_forbidden"
	// ReasonUnreachable: nothing answers there.
	ReasonUnreachable Reason = "unreachable"
	// ReasonTLS: what answers does not speak TLS 1.3, or shows no key of the right kind.
	ReasonTLS Reason = "tls_failed"
	// ReasonKey: what answers has another key than the agent.
	ReasonKey Reason = "wrong_key"
	// ReasonToken: the distributor gives no token for this agent.
	ReasonToken Reason = "no_token"
	// ReasonRefused: the agent does not take this hub for its own.
	ReasonRefused Reason = "refused"
	// ReasonAnswer: it answers otherwise than an agent does, or is not ready.
	ReasonAnswer Reason = "unexpected_answer"
	// ReasonSession: the agent could not be admitted, or is silent.
	ReasonSession Reason = "no_session"
)

// Failure is why an agent could not be dialled.
type Failure struct {
	Reason Reason
	Err    error
}

// Error implements error.
func (f *Failure) Error() string { return string(f.Reason) + ": " + f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// leaseKey names the lease of a cluster.
func leaseKey(uid string) string { return "agent/" + uid }
