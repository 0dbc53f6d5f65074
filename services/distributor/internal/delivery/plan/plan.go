// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan computes what a cluster should run: one Plan value from its services and what their
// sources hold.
//
// It is pure: equal input gives an equal plan with an equal version, on every replica and after
// every restart. Commits, times and traces take no part in a version, so a commit that does not
// touch a folder changes no plan.
package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Plan is everything a cluster should run. It is immutable.
type Plan struct {
	Cluster string
	// Version is a digest over the cluster's name, its own part and its entries, but not their
	// commits and traces.
	Version string
	// Entries are sorted by name. An entry does not change, so that plans share their common ones: the
	// plans that a cluster's plan replaced cost little more than the changes since.
	Entries []*Entry
	ClusterPart
	// ComputedAt is when a plan of this version was first computed here.
	ComputedAt time.Time
}

// ClusterPart is the part of a plan about the cluster itself, not of a service.
type ClusterPart struct {
	// Settings are the hub's settings for the agent.
	Settings syncpolicy.AgentSettings
	// Facts are the parts of the cluster's document that renderers may use.
	Facts Facts
	// RemovalsHeldSince is since when the agent removes nothing. Zero: it removes what leaves the
	// plan.
	RemovalsHeldSince time.Time
}

// Facts are the hub's facts about a cluster. The maps must not be changed. The names in JSON are
// hashed.
type Facts struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// For returns the facts that the service of an entry may know.
func (f Facts) For(e Entry) Facts {
	if e.Limits == nil || e.Limits.ClusterAnnotations == nil {
		return f
	}
	known := map[string]string{}
	for key, value := range f.Annotations {
		if e.Limits.ClusterAnnotations.Allows(key) {
			known[key] = value
		}
	}
	return Facts{Labels: f.Labels, Annotations: known}
}

// IsZero reports whether nothing is known.
func (f Facts) IsZero() bool { return len(f.Labels) == 0 && len(f.Annotations) == 0 }

func (c ClusterPart) equal(other ClusterPart) bool {
	return c.Settings.Equal(other.Settings) && maps.Equal(c.Facts.Labels, other.Facts.Labels) &&
		maps.Equal(c.Facts.Annotations, other.Facts.Annotations) && c.RemovalsHeldSince.Equal(other.RemovalsHeldSince)
}

// Entry is one service of a plan.
type Entry struct {
	// Name is the service's local one: the cluster is the plan's.
	Name string
	UID  catalog.UID
	// Content is never nil in a plan. Entries share equal ones.
	*Content
	// SyncRequest changes when a person asks for a sync now.
	SyncRequest string
	// Trigger is what caused the latest change; nil: not known.
	Trigger *catalog.Trigger
}

// Content is the content of an entry, which clusters have in common. It is immutable.
type Content struct {
	// SpecDigest is a digest over Apply and the places of the sources.
	SpecDigest string
	// ConfigDigest names the service's configuration; empty where there is none.
	ConfigDigest string
	// Bundles are in the order of the sources; empty while one of them was never resolved, and for
	// a withheld service: see Input.
	Bundles []Bundle
	// Options are the service's own, shared with the catalog: see Apply.
	Options *syncpolicy.Options
	// Limits are the limits of the service's project that agents check; nil: none. They are shared
	// with the catalog, and SpecDigest covers them.
	Limits *syncpolicy.Limits
	// Requires are the capability words without which an agent must leave the service unchanged.
	// They follow from what SpecDigest covers, and from the configuration.
	Requires []string
	// Digest names what the entry wants applied: its spec, its configuration and its content, but
	// not the request to sync it now.
	Digest string
}

// Bundle is the content of one source.
type Bundle struct {
	Digest digest.Digest
	// Commit is where the content was seen last, and Version the tag that was selected then; empty
	// if none was.
	Commit, Version string
	// Source is the source that it was made of, in its normal spelling.
	Source catalog.Source
	// Subpath is where the manifests are inside the bundle; "" is the bundle's root.
	Subpath string
	// Mount is the folder of the service's tree where the content lies; "" is the tree's root.
	Mount string
}

// Input is one service with what its sources hold.
type Input struct {
	Service *catalog.Service
	// Snapshots are in the order of the service's sources; nil where a source was never resolved.
	Snapshots []*catalog.Snapshot
	// Limits are the limits of the service's project; nil: none.
	Limits *syncpolicy.Limits
	// IsWithheld is true if the cluster's agent does not have what the service requires, or if the
	// service's configuration waits for a value. The entry
	// then has no bundles, which every agent there ever was takes for a service that is not
	// resolved yet: it changes and deletes nothing, and it reads nothing that it would
	// misunderstand.
	IsWithheld bool
}

// Cause is why a plan is computed.
type Cause struct {
	Time time.Time
	// Trigger is what happened; nil: not known.
	Trigger *catalog.Trigger
	// Last is the cluster's plan until now, nil when there is none: what it has in common with the
	// new plan keeps its time and its trigger.
	Last *Plan
	// Pool has contents that were computed before; nil: none.
	Pool *Pool
}

// nothing is the content of an entry that is not there.
var nothing = &Content{}

// Entry returns the entry of a service by its local name.
func (p *Plan) Entry(name string) (Entry, bool) {
	if entry := p.find(name); entry != nil {
		return *entry, true
	}
	return Entry{Content: nothing}, false
}

// find returns the entry of a service, or nil.
func (p *Plan) find(name string) *Entry {
	i, found := slices.BinarySearchFunc(p.Entries, name, func(e *Entry, name string) int { return cmp.Compare(e.Name, name) })
	if !found {
		return nil
	}
	return p.Entries[i]
}

// Bundle returns a bundle of the plan by its digest.
func (p *Plan) Bundle(d digest.Digest) (Bundle, bool) {
	for _, entry := range p.Entries {
		for _, bundle := range entry.Bundles {
			if bundle.Digest == d {
				return bundle, true
			}
		}
	}
	return Bundle{}, false
}

// Apply returns how the manifests are applied, with every default and the project's limits filled in, and
// without the ends of pauses and rules: Options are as of the time of the plan, and agents know no others.
func (c *Content) Apply() syncpolicy.Options {
	options := catalog.ServiceSpec{Options: c.Options}.Wanted().AsOf(time.Time{}).WithDefaults()
	options.Policy.Limits = c.Limits
	return options
}

// IsPaused reports whether agents leave the service unchanged.
func (c *Content) IsPaused() bool { return c.Options != nil && c.Options.Paused }

// Digests returns the digests of the bundles as text, in the order of the sources.
func (c *Content) Digests() []string {
	texts := make([]string, len(c.Bundles))
	for i, bundle := range c.Bundles {
		texts[i] = bundle.Digest.String()
	}
	return texts
}
