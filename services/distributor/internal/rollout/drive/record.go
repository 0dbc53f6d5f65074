// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// KeptRuns is how many rollouts of a policy are kept.
const KeptRuns = 20

// Start is the state in which a rollout began. Its JSON, without members, is its stored form.
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
	// Before are the edits that the members had when the rollout began, and After the edits that they
	// have if it completes.
	Before Reached `json:"before,omitzero"`
	After  Reached `json:"after,omitzero"`
	// ConfigOf are the names of the configurations of releases. Releases that an earlier version
	// stored have none.
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
	// Refused lists parts that this rollout, and earlier ones, did not bring to all members. It holds
	// only parts of members' specs and sources: see forget.
	Refused []Refusal
	// Summary is the summary of the rolled-out change. It changes with new members alone.
	Summary Summary
}

// Summary describes the change that a rollout brings to its members. Its JSON is its stored form.
type Summary struct {
	// Changes are the result of Record.Changes.
	Changes []string `json:"changes,omitempty"`
	// Contents are the intended contents of sources, at most 32.
	Contents []Content `json:"contents,omitempty"`
}

// Content is the intended content of a source, for people.
type Content struct {
	Repository string `json:"repository"`
	Commit     string `json:"commit"`
	Version    string `json:"version,omitempty"`
}

// Reached is the revision of the catalog up to which services have the edits of their parts. Its
// JSON is its stored form.
type Reached struct {
	Revision int64 `json:"revision,omitempty"`
	// Except are the objects that reached less, by the uid of the service or of its global service.
	Except map[string]int64 `json:"except,omitempty"`
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

// Place is the place of a member in the listing of a rollout. It is comparable; the zero value
// comes before all.
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

// Step holds the writes of a replica that belong together.
type Step struct {
	// Record is the new state. Its Version is the one that was read, or 0 for a new rollout. Nil: there
	// are admissions alone.
	Record *Record
	// Before is the state of which Record was made: the members that are the same in both are not written.
	// Nil: all are.
	Before    *Record
	Events    []rollout.Event
	Decisions []rollout.Decision
	// Admissions replace their services' earlier ones. One without content releases its service.
	Admissions []catalog.Admission
}

// Log is everything that a replay needs.
type Log struct {
	Record    Record
	Events    []rollout.Event
	Decisions []rollout.Decision
}
