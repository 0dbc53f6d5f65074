// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package mirroring runs the repositories of one replica: it owns, fetches, copies, verifies and
// keeps their mirrors.
//
// # Promises
//
// Of all replicas exactly one, the holder of a repository's lease, talks to its upstream: it polls,
// fetches when refs moved, and publishes the changes under the epoch of its lease. Nothing goes
// upstream, and no fetched ref becomes the mirror's, without a check of the lease. Every replica
// answers reads from its own disk, and delivers only what the repository's policy accepts. An
// upstream that fails, or that vanishes, takes nothing away from the mirrored content.
//
// # States
//
// A [Repository] competes for its lease for as long as it is defined. Without the lease it follows:
// it copies the owner's content, if the placement selects it. With it, it is in a tenure: it
// fetches whenever its schedule demands it, and does what only an owner may ([Repository.AsOwner]).
// A tenure ends when the lease is lost, the process ends, a newer owner was seen, or the repository
// is handed over to the replica that should own it. Its phase, which callers see, is cloning until
// the first fetch ended; then ready or stale with a mirror, failed without one; and suspended
// whenever its definition is.
//
// # Parts
//
// The decisions are pure, in packages of their own: schedule decides when a fetch is due, placement
// who should own and follow a repository, verify which commits are delivered. The effects are parts
// of a Repository, each with one subject:
//
//	candidate      competes for the lease, and gives it to a successor
//	tenure         fetches, publishes and hands over while the lease is held
//	ownerTasks     what else only the owner does: LFS objects, blobs
//	follower       keeps the copy in step with the owner's mirror
//	copier         copies from another replica
//	verification   verifies the mirrored content when the policy or the content changed
//	localMirror    the files: one writer at a time
//	status         the state: holding (content and policy) and fetching (definition, schedule and epoch)
//
// # Locks
//
// Only two are ever held together, and in this order: the writer of localMirror, which a fetch, a
// copy or a compaction holds for long, before any other. The mutexes of holding, fetching and
// ownerTasks guard a few fields each for a few instructions, and none is held while another one is
// taken, except the mutex of changes, which is a leaf. The mutex of ownerLookup is held during one
// question of the lease store. Set.mu comes before the mutexes of the repositories. Invariants over
// two of them are described at status and at copier.
//
// # What it does not do
//
// It knows neither Git nor Redis nor the wire: those are behind the ports of package mirror. It
// stores no state of its own, beside the mirrors: a replica that restarts finds out again who owns
// what. It builds no bundles.
package mirroring

import (
	"cmp"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Settings are the times and bounds of all repositories. A field that is zero takes the value that
// it has in [DefaultSettings].
type Settings struct {
	PollInterval time.Duration // where a definition has none
	LeaseTTL     time.Duration
	LeaseRenew   time.Duration // zero: a third of LeaseTTL
	FetchTimeout time.Duration
	CloneTimeout time.Duration
	Debounce     time.Duration // between two requested fetches
	Fetches      int           // at once on this replica
	Clones       int           // at once on this replica
	Rebalance    time.Duration // mean time between checks of who should own what
	Followers    int           // replicas besides the owner that keep a copy; zero: none
}

// DefaultSettings returns the settings of a replica that is given none.
func DefaultSettings() Settings {
	return Settings{
		PollInterval: 2 * time.Minute, LeaseTTL: 15 * time.Second, FetchTimeout: 5 * time.Minute, CloneTimeout: 30 * time.Minute,
		Debounce: time.Second, Fetches: 16, Clones: 8, Rebalance: 30 * time.Second,
	}
}

func (s Settings) withDefaults() Settings {
	d := DefaultSettings()
	s.PollInterval = cmp.Or(max(s.PollInterval, 0), d.PollInterval)
	s.LeaseTTL = cmp.Or(max(s.LeaseTTL, 0), d.LeaseTTL)
	s.LeaseRenew = cmp.Or(max(s.LeaseRenew, 0), s.LeaseTTL/3)
	s.FetchTimeout = cmp.Or(max(s.FetchTimeout, 0), d.FetchTimeout)
	s.CloneTimeout = cmp.Or(max(s.CloneTimeout, 0), d.CloneTimeout)
	s.Debounce = cmp.Or(max(s.Debounce, 0), d.Debounce)
	s.Rebalance = cmp.Or(max(s.Rebalance, 0), d.Rebalance)
	s.Fetches = cmp.Or(max(s.Fetches, 0), d.Fetches)
	s.Clones = cmp.Or(max(s.Clones, 0), d.Clones)
	return s
}

// Deps are the collaborators of a [Set]. All but Objects are required.
type Deps struct {
	Backend  mirror.Backend
	Named    mirror.Named
	Events   mirror.EventLog
	Leases   lease.Store
	Peers    mirror.Peers
	Replicas mirror.Replicas
	// Objects are copied and removed with the mirrors. Nil: there are none.
	Objects mirror.Objects
	// Self is the name under which other replicas reach this one; it is the owner's name in leases.
	Self     string
	Settings Settings
	Logger   *slog.Logger
	Tracer   trace.Tracer
	Meter    metric.Meter
}
