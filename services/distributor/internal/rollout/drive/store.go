// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package drive drives rollouts: one replica turns what it sees of the fleet into events, and what
// package rollout decides into admissions, which all replicas plan with.
//
// # Promises
//
// An event, the decisions that it led to and the admissions that follow are written in one transaction,
// or none of them is. A replica acts only in its term, and only on the version of a rollout that it
// has seen: two replicas never act on one rollout at once. A new leader continues where the log
// ends.
//
// # What it does not do
//
// It decides nothing about waves, and does not identify people. While the database is away nothing
// is admitted, and services keep what they have.
package drive

import (
	"context"
	"errors"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Errors of a Store.
var (
	// ErrMoved means that the rollout has changed since it was read. Nothing was written.
	ErrMoved = errors.New("the rollout has changed meanwhile")
	// ErrNotFound means that there is no such rollout.
	ErrNotFound = errors.New("there is no such rollout")
)

// Store keeps rollouts; sqlstore.Rollouts implements it. Its methods may be called concurrently. Errors
// match catalog.ErrUnavailable if the database does not answer. Every write in a term counts as a beat.
type Store interface {
	// Heads returns the latest rollout of each policy.
	Heads(ctx context.Context) ([]Head, error)
	// Authors returns who changed what services run, in revisions of the catalog after since.
	Authors(ctx context.Context, since int64) ([]catalog.Author, error)
	// Record returns a rollout by its id, without Start.Members. Errors: ErrNotFound.
	Record(ctx context.Context, id string) (*Record, error)
	// Save writes a step of the leader, and forgets rollouts of which a policy has too many. The
	// configurations that it names were kept before. It forgets unreferenced ones. Errors:
	// election.ErrDeposed, ErrMoved.
	Save(ctx context.Context, term int64, step Step) error
	// KeepConfigs stores the configurations that a step is about to name. The next step forgets the
	// ones that it does not name. It returns the names of configurations that it cannot store, because
	// their services have other ones now or cannot be derived. Errors: election.ErrDeposed.
	KeepConfigs(ctx context.Context, term int64, wishes []ConfigWish) (lacking []string, err error)
	// ChangedKeys returns the keys in which stored configurations differ: from and to of each pair of names.
	ChangedKeys(ctx context.Context, pairs [][2]string) ([]string, error)
}

// ConfigWish is a configuration that is to be stored: the one of a service, as its project knows its cluster.
type ConfigWish struct {
	Name    string
	Service *catalog.Service
	Cluster *catalog.Cluster
}

// People is the port by which people control rollouts; sqlstore.Rollouts implements it.
type People interface {
	// Runs returns the rollouts of a policy, the latest first.
	Runs(ctx context.Context, policyUID string) ([]*Outline, error)
	// Latest returns the latest rollout of each policy that has had one, by the policy's uid.
	Latest(ctx context.Context) (map[string]*Outline, error)
	// Find returns a rollout by its number, without Start.Members; 0 is the latest. Errors: ErrNotFound.
	Find(ctx context.Context, policyUID string, number int64) (*Record, error)
	// Page returns a rollout by its number, and the members that are listed after a place, at most
	// limit. They are in the order of waves; unchanged members come last. Errors: ErrNotFound.
	Page(ctx context.Context, policyUID string, number int64, after Place, limit int) (*Outline, []Placed, error)
	// Log returns a rollout with all that happened, by its number; 0 is the latest. Errors: ErrNotFound.
	Log(ctx context.Context, policyUID string, number int64) (*Log, error)
	// Tell writes what a person wants of a rollout that was read at its version, and puts it on record.
	// Errors: ErrMoved.
	Tell(ctx context.Context, change catalog.Change, step Step) error
}
