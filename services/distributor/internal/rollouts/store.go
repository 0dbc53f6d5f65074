// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts drives rollouts: one replica turns what it sees of the fleet into events, and what
// package rollout decides into admissions, which all replicas plan with.
//
// # Promises
//
// An event, the decisions that it led to and the admissions that follow are written in one transaction,
// or none of them is. A replica acts only in its term, and only on the version of a rollout that it has
// seen: two replicas never act on one rollout at once. A new leader goes on where the log ends.
//
// # What it does not do
//
// It decides nothing about waves, and asks nobody who they are. While the database is away nothing is
// admitted, and services keep what they have.
package rollouts

import (
	"context"
	"errors"
	"time"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// Errors of a Store.
var (
	// ErrMoved means that the rollout has changed since it was read. Nothing was written.
	ErrMoved = errors.New("the rollout has changed meanwhile")
	// ErrNotFound means that there is no such rollout.
	ErrNotFound = errors.New("there is no such rollout")
)

// KeptRuns is how many rollouts of a policy are kept.
const KeptRuns = 20

// Start is what a rollout began with. Its JSON, without members, is its stored form.
type Start struct {
	Candidate rollout.Candidate `json:"candidate"`
	Strategy  rollout.Strategy  `json:"strategy"`
	// Members are for replays: they are written once, and read with a Log alone.
	Members []rollout.Member `json:"members,omitempty"`
	At      time.Time        `json:"at"`
	// Contents are the contents of releases by the names of these, and SpecOf the digests of their specs.
	// A release without one is of an earlier version, which staged content alone.
	Contents map[string][]catalog.HeldSource `json:"contents"`
	SpecOf   map[string]string               `json:"specOf,omitempty"`
	// Before are the edits that the members had when the rollout began, and After those that they have if it
	// completes.
	Before Reached `json:"before,omitzero"`
	After  Reached `json:"after,omitzero"`
	// ConfigOf are the names of the configurations of releases. Those that an earlier version stored have none.
	ConfigOf map[string]string `json:"configOf,omitempty"`
	// ConfigKeys are keys that configurations differ in, as far as they were few when the rollout began.
	ConfigKeys []string `json:"configKeys,omitempty"`
	// Specs are the specs of releases by their digests: members have few different ones.
	Specs map[string]*catalog.StagedSpec `json:"specs,omitempty"`
}

// Release returns what a name stands for.
func (s *Start) Release(name string) catalog.Release {
	return catalog.Release{Spec: s.Specs[s.SpecOf[name]], Config: s.ConfigOf[name], Content: s.Contents[name]}
}

// add names a release.
func (s *Start) add(release catalog.Release) (name string) {
	name = release.Name()
	if _, ok := s.Contents[name]; ok {
		return name
	}
	s.Contents[name] = release.Content
	if release.Spec != nil {
		if s.SpecOf == nil {
			s.SpecOf, s.Specs = map[string]string{}, map[string]*catalog.StagedSpec{}
		}
		s.SpecOf[name], s.Specs[release.Spec.Digest] = release.Spec.Digest, release.Spec
	}
	if release.Config != "" {
		if s.ConfigOf == nil {
			s.ConfigOf = map[string]string{}
		}
		s.ConfigOf[name] = release.Config
	}
	return name
}

// Refusal is content, a spec or a configuration that is not tried again. It is comparable.
type Refusal struct {
	Source catalog.Source `json:"source,omitzero"`
	Digest digest.Digest  `json:"digest,omitzero"`
	// Spec is the digest of a staged spec, and Config the name of a configuration. With both, it is their
	// combination that is refused, and each may be tried with another one. With neither, Source must not have
	// the content Digest.
	Spec   string `json:"spec,omitempty"`
	Config string `json:"config,omitempty"`
}

// Record is a stored rollout.
type Record struct {
	ID        string
	PolicyUID string
	// Number counts the rollouts of a policy, from 1.
	Number int64
	// Version grows with every write.
	Version int64
	Start   Start
	Run     rollout.Run
	// Refused is what this rollout, and those before it, did not bring to all members. It holds no more than
	// what members have in their specs and sources: see forget.
	Refused []Refusal
	// Summary is that of what is rolled out. It changes with new members alone.
	Summary Summary
}

// Outline is a stored rollout without its members, and without what it began with.
type Outline struct {
	ID        string
	PolicyUID string
	Number    int64
	Version   int64
	Run       rollout.Header
	Summary   Summary
}

// Outline returns the record's.
func (r *Record) Outline() *Outline {
	return &Outline{ID: r.ID, PolicyUID: r.PolicyUID, Number: r.Number, Version: r.Version, Run: r.Run.Header, Summary: r.Summary}
}

// Place is that of a member in the listing of a rollout. It is comparable; the zero value comes before all.
type Place struct {
	Wave int64
	UID  string
}

// Placed is a listed member.
type Placed struct {
	*rollout.Progress

	Place Place
}

// Head names a state of the latest rollout of a policy. It is comparable.
type Head struct {
	ID, PolicyUID string
	Version       int64
}

// Step is what a replica writes at once.
type Step struct {
	// Record is the new state. Its Version is the one that was read, or 0 for a new rollout. Nil: there
	// are admissions alone.
	Record *Record
	// Before is the state of which Record was made: the members that are the same in both are not written.
	// Nil: all are.
	Before    *Record
	Events    []rollout.Event
	Decisions []rollout.Decision
	// Admissions replace those of their services. One without content releases its service.
	Admissions []catalog.Admission
}

// Log is everything that a replay needs.
type Log struct {
	Record    Record
	Events    []rollout.Event
	Decisions []rollout.Decision
}

// Store keeps rollouts; sqlstore.Rollouts implements it. Its methods may be called concurrently. Errors
// match catalog.ErrUnavailable if the database does not answer. Every write in a term counts as a beat.
type Store interface {
	// Heads returns the latest rollout of each policy.
	Heads(ctx context.Context) ([]Head, error)
	// Authors returns who changed what services run, in revisions of the catalog after since.
	Authors(ctx context.Context, since int64) ([]catalog.Author, error)
	// Record returns a rollout by its id, without Start.Members. Errors: ErrNotFound.
	Record(ctx context.Context, id string) (*Record, error)
	// Save writes a step of the leader, and forgets rollouts of which a policy has too many. The configurations
	// that it names were kept before. It forgets those that nothing names any more. Errors:
	// election.ErrDeposed, ErrMoved.
	Save(ctx context.Context, term int64, step Step) error
	// KeepConfigs stores the configurations that a step is about to name. The next step forgets those that it
	// does not name. It returns the names of those that it cannot store, because their services have other
	// ones now or cannot be derived.
	// Errors: election.ErrDeposed.
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

// People is what people do with rollouts; sqlstore.Rollouts implements it.
type People interface {
	// Runs returns the rollouts of a policy, the latest first.
	Runs(ctx context.Context, policyUID string) ([]*Outline, error)
	// Latest returns the latest rollout of each policy that has had one, by the policy's uid.
	Latest(ctx context.Context) (map[string]*Outline, error)
	// Find returns a rollout by its number, without Start.Members; 0 is the latest. Errors: ErrNotFound.
	Find(ctx context.Context, policyUID string, number int64) (*Record, error)
	// Page returns a rollout by its number, and the members that are listed after a place, at most limit. They
	// are in the order of waves; those that the rollout does not change come last. Errors: ErrNotFound.
	Page(ctx context.Context, policyUID string, number int64, after Place, limit int) (*Outline, []Placed, error)
	// Log returns a rollout with all that happened, by its number; 0 is the latest. Errors: ErrNotFound.
	Log(ctx context.Context, policyUID string, number int64) (*Log, error)
	// Tell writes what a person wants of a rollout that was read at its version, and puts it on record.
	// Errors: ErrMoved.
	Tell(ctx context.Context, change catalog.Change, step Step) error
}

// Seen is what a replica sees of a service under a policy.
type Seen struct {
	Service       *catalog.Service
	ClusterUID    string
	ClusterLabels map[string]string
	// Spec is the staged part of its own spec.
	Spec *catalog.StagedSpec
	// Live is what those of its sources hold that were ever resolved, and those of the spec that it is held
	// at.
	Live []catalog.HeldSource
	// Held is what it has instead. Nil: nothing is held.
	Held *catalog.Admission
	// Config names its own configuration, empty if that cannot be staged: see [catalog.StagedConfig].
	// ConfigWaits is true while a value of it was never read.
	Config      string
	ConfigWaits bool
	// ConfigDigest is that of its plan, of the configuration that it is held at.
	ConfigDigest string
	// Limits are those of its project, which are a part of what agents report on.
	Limits *syncpolicy.Limits
	// HasSets is true if its configuration has layers or references that other services may share.
	HasSets bool
	// IsDeriving is true if the services of its global service may be of different states of that.
	IsDeriving bool
	// Report is the agent's. Nil: it has not reported.
	Report *catalog.ServiceReport
	// IsOnline is true if the cluster can be seen and the service is neither paused nor a dry run.
	IsOnline bool
}

// Sight is what a replica sees of the fleet.
type Sight struct {
	// Policies are by precedence.
	Policies []*catalog.RolloutPolicy
	// Members are the services that a policy decides about, by its uid.
	Members map[string][]Seen
	// Changes are those since the last look, by the policy's uid. Of a policy without them
	// anything may have changed.
	Changes map[string]Changes
	// Uncovered are services that are held and no policy covers, and those that are gone.
	Uncovered []*catalog.Admission
}

// Changes are those of what is seen of a policy's services.
type Changes struct {
	// Seen are the indexes of the members that are new, or of which something else is seen now.
	Seen []int
	// Gone are the uids of services that the policy covered and does not cover any more.
	Gone []string
}

// Fleet is this replica's view of the fleet; fleet.Rollouts implements it. It is safe for concurrent
// use.
type Fleet interface {
	// Refresh takes over what the store holds.
	Refresh(ctx context.Context) error
	// IsNeeded reports whether there are policies, or services that are held. It costs nothing.
	IsNeeded() bool
	// Revision is one of the catalog. A look after the next refresh has seen all edits up to it, but for those of
	// services that are behind.
	Revision() int64
	// Behind returns what reports whether a service may be of an earlier state of its global service.
	Behind() func(*catalog.Service) bool
	// Layers returns the uids of the sets of which configurations of services may be made, and of the projects
	// that list sets for them.
	Layers(services []*catalog.Service) []string
	// ClusterOf returns the cluster of a service as the service's project knows it; nil if it is gone.
	ClusterOf(service *catalog.Service) *catalog.Cluster
	// Watch returns a Watch that has seen nothing yet.
	Watch() Watch
	// Still runs look while the view takes nothing over from the store. What it took over before, it has announced, so a
	// look sees an edit of many services whole, or not at all. Edits wait meanwhile.
	Still(look func())
}

// Watch looks at the fleet again and again. It is for one goroutine.
type Watch interface {
	// Look returns what is seen now, of every service under a policy. changed are the objects that were
	// announced since the last look, of which the view was refreshed after. If isAll, each service is looked
	// at, and there are no changes to tell. The next look changes the members of the Sight.
	Look(changed []catalog.Key, isAll bool) Sight
}

// Sources asks upstreams. It is safe for concurrent use.
type Sources interface {
	// Resolve returns what a source holds. Errors say why it cannot be resolved now, or at all.
	Resolve(ctx context.Context, source catalog.Source) (catalog.Snapshot, error)
}
