// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"crypto/ed25519"
	"time"
)

// Log lists the changes.
type Log interface {
	// Changes returns everything that changed after the revision since, as of one instant. Zero
	// returns all there is, except for the reports of derived services, of which there may be millions.
	Changes(ctx context.Context, since int64) (Changes, error)
	// DerivedReports returns the latest reports of the derived services in clusters, which are given by
	// their uids. The reports are in no order. One that cannot be read is among them, with its damage.
	DerivedReports(ctx context.Context, clusterUIDs []string) ([]StoredReport, error)
}

// Changes is the difference between two revisions.
type Changes struct {
	// Revision is the newer one.
	Revision int64
	// Deleted comes first: an object may have been deleted and created again under its name.
	Deleted []Tombstone
	// Plain are the objects of plain kinds.
	Plain        []Plain
	Clusters     []*Cluster
	Repositories []*Repository
	Services     []*Service
	Users        []*User
	Bindings     []*AccessBinding
	Projects     []*Project
	// Providers are without their secrets.
	Providers []*IdentityProvider
	// Backends are without their credentials.
	Backends []*ConfigBackend
	// Notifiers are without their secrets.
	Notifiers []*Notifier
	// Tokens may have ended.
	Tokens []Token
	// Sessions may have ended.
	Sessions []Session
	Reports  []StoredReport
	// Grants may have ended.
	Grants []Grant
	FleetChanges
}

// FleetChanges are the changes of what many services follow from.
type FleetChanges struct {
	FleetSources []*FleetSource
	// ConfigSets are without their secrets.
	ConfigSets []*ConfigSet
	// Globals are without their secrets: only their keys.
	Globals []*GlobalService
	// Variants may have ended.
	Variants []VariantState
	// Requests are the latest requests for syncs of derived services, their exceptions and departures.
	Requests []SyncRequest
	// Admissions may hold nothing.
	Admissions []Admission
}

// SyncRequest is the latest request for a sync of a derived service, its exception and its departure;
// each may be missing.
type SyncRequest struct {
	Service, ServiceUID string
	GlobalUID           string
	Request             string
	Exception           *Exception
	Departure           Departure
}

// Tombstone remembers a deleted object for at least 30 days.
type Tombstone struct {
	Key      Key
	UID      string
	Revision int64
}

// Snapshots keeps what sources were last resolved to, so that a restart without a way to Git yields
// the same plans.
type Snapshots interface {
	// SaveSnapshot replaces the stored snapshot of the source, given in its normal spelling, unless
	// that is of a later state of the upstream. It does nothing when the repository, named by its uid,
	// is gone.
	SaveSnapshot(ctx context.Context, repositoryUID string, source Source, resolution Resolution) error
	// LoadSnapshots returns the stored snapshots for sources of repositories that exist.
	LoadSnapshots(ctx context.Context) (map[Source]Resolution, error)
	// SnapshotsOf is LoadSnapshots for some sources, given in their normal spelling.
	SnapshotsOf(ctx context.Context, sources []Source) (map[Source]Resolution, error)
	// PruneSnapshots forgets sources that keep does not know. It knows the catalog as of the
	// revision; where services were written since, nothing happens.
	PruneSnapshots(ctx context.Context, revision int64, keep func(Source) bool) error
}

// Configs reads configurations, which are too secret to be kept in memory.
type Configs interface {
	// Config returns the configuration of the service with that uid, secrets included, and its
	// digest; an empty one with the digest "" where there is none, or no such service.
	Config(ctx context.Context, serviceUID string) (Config, string, error)
}

// Definitions is the port for the mirrors of repositories.
type Definitions interface {
	// Definitions returns every repository with its credential, and the tombstones of deleted ones.
	Definitions(ctx context.Context) ([]*Repository, []Tombstone, error)
}

// Enrolments keeps the agents' identities.
type Enrolments interface {
	// CreateJoinToken stores the hash of a token with which one agent can enrol for the cluster.
	// Error: *NotFoundError.
	CreateJoinToken(ctx context.Context, cluster string, hash []byte, expires time.Time) error
	// JoinTokens returns the join tokens that have not expired, and used ones; and the bootstrap
	// tokens that have not expired. If there are very many, it returns the latest. It does not take a
	// lock.
	JoinTokens(ctx context.Context) ([]JoinToken, error)
	// Enrol uses up the token and makes key the cluster's only one. The same key may come again
	// with the same token, because the first answer may have been lost; nothing changes then.
	// Errors: ErrJoinTokenInvalid.
	Enrol(ctx context.Context, hash []byte, key ed25519.PublicKey, agentVersion string) (*Cluster, error)
	// Revoke forgets the cluster's key and its unused join tokens. Error: *NotFoundError.
	Revoke(ctx context.Context, cluster string) error
	// Release ends the hold of removals that a restore of the hub began in the cluster. A cluster
	// without one stays as it is. Error: *NotFoundError.
	Release(ctx context.Context, cluster string) error
}

// JoinToken is the stored state of a join token, as far as it decides who may try to use it.
type JoinToken struct {
	Hash []byte
	// Used is true once an agent has enrolled with the token.
	Used bool
	// ClusterKey is the key of the cluster's agent, or nil if no agent is enrolled.
	ClusterKey ed25519.PublicKey
	// IsBootstrap is true for a bootstrap token, with which many agents enrol. Its other fields are
	// meaningless.
	IsBootstrap bool
}

// Reports keeps what agents report.
type Reports interface {
	// SaveReports stores reports, in their order and in one transaction, and returns a receipt for
	// each. The stored state decides about a report, so it does not matter which replica a report
	// comes to. With an error nothing is stored, or the answer of the database was lost; saving the
	// same again does no harm.
	SaveReports(ctx context.Context, reports []AgentReport) ([]Receipt, error)
	// SavePresence stores when agents were last heard from, in times of the store's clock.
	SavePresence(ctx context.Context, presence []Presence) error
	// Now returns the time of the store's clock, which all replicas share, in microseconds and UTC.
	// Error: ErrUnavailable.
	Now(ctx context.Context) (time.Time, error)
}

// History keeps what services were to run.
type History interface {
	// Revisions returns the latest revisions of the service with that uid, the latest first,
	// MaxRevisions at most.
	Revisions(ctx context.Context, serviceUID string) ([]Revision, error)
}

// Presence is when a cluster's agent was last heard from.
type Presence struct {
	ClusterUID     string
	SeenAt         time.Time
	ConnectedUntil time.Time
}
