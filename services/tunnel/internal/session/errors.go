// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
)

var (
	// ErrOffline means that the cluster's agent has no connection to this replica.
	ErrOffline = errors.New("agent has no connection")
	// ErrDraining means that this replica is shutting down and takes nothing new.
	ErrDraining = errors.New("replica is draining")
	// ErrFull means that the agent carries as many requests as it allows. Waiting a second helps.
	ErrFull = errors.New("agent takes no more requests at once")
	// ErrTokenInUse means that another process of the agent is connected with the same token. A new
	// token helps.
	ErrTokenInUse = errors.New("token is in use by another process")
	// ErrTokenOutdated means that another process of the agent is connected with a newer token. A
	// new token helps.
	ErrTokenOutdated = errors.New("another process has a newer token")
	// ErrLost means that the connection failed before any byte of a response arrived.
	ErrLost = errors.New("connection to the agent was lost")
	// ErrRefused is an [ErrLost] of which is certain that the agent has not begun the request: it
	// can be sent again, whatever it does.
	ErrRefused = fmt.Errorf("agent has not begun the request: %w", ErrLost)
)

// Scope is the owner of the limit that was reached.
type Scope string

// The limits on requests under way.
const (
	// ScopeCluster is the limit for one cluster's agent.
	ScopeCluster Scope = "cluster"
	// ScopeUser is the limit for one person over all clusters.
	ScopeUser Scope = "user"
)

// BusyError means that too many requests are under way. Waiting a second helps as soon as one of
// them ends.
type BusyError struct {
	// Scope is whose limit was reached.
	Scope Scope
	// Limit is the number of requests that may be under way at once.
	Limit int
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("limit of %d concurrent requests for this %s is reached", e.Limit, e.Scope)
}
