// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Revise makes the next plan of a cluster from its last one: the services that changed or came, and
// the paths of removed ones. The result equals Compute's over all services, at the price of the
// changed ones. Cause.Last is ignored.
func Revise(last *Plan, changed []Input, gone []string, why Cause) *Plan {
	why.Last = last
	touched := make(map[string]struct{}, len(changed)+len(gone))
	for _, input := range changed {
		touched[input.Service.LocalName()] = struct{}{}
	}
	for _, path := range gone {
		touched[objectname.LocalPath(path)] = struct{}{}
	}
	entries := make([]*Entry, 0, len(last.Entries)+len(changed))
	for _, entry := range last.Entries {
		if _, ok := touched[entry.Name]; !ok {
			entries = append(entries, entry)
		}
	}
	for _, input := range changed {
		entries = append(entries, why.entry(input))
	}
	return why.plan(last.Cluster, last.ClusterPart, entries)
}

// With returns the plan with another part of the cluster's own.
func (p *Plan) With(own ClusterPart, why Cause) *Plan {
	if p.equal(own) {
		return p
	}
	next := *p
	next.ClusterPart, next.Version, next.ComputedAt = own, versionOf(p.Cluster, own, p.Entries), why.Time
	return why.keepTime(&next)
}

// At returns the plan with other commits and versions of sources: seen returns the latest ones at
// which the bundle's source holds its content. The plan's version and digests are the same.
func (p *Plan) At(seen func(Bundle) (commit, version string)) *Plan {
	next := *p
	next.Entries = slices.Clone(p.Entries)
	hasMoved := func(b Bundle) bool {
		commit, version := seen(b)
		return commit != b.Commit || version != b.Version
	}
	for i, last := range next.Entries {
		if !slices.ContainsFunc(last.Bundles, hasMoved) {
			continue
		}
		entry, content := *last, *last.Content
		content.Bundles = slices.Clone(last.Bundles)
		entry.Content, next.Entries[i] = &content, &entry
		for j, bundle := range content.Bundles {
			content.Bundles[j].Commit, content.Bundles[j].Version = seen(bundle)
		}
	}
	return &next
}

// Entry returns what a plan holds for the service, without a trigger.
func (i Input) Entry() Entry { return *entryOf(i, nil) }

func (c Cause) entry(input Input) *Entry {
	entry := entryOf(input, c.Pool)
	entry.Trigger = c.trigger(entry)
	return entry
}

// plan takes the entries over and puts them into their order.
func (c Cause) plan(cluster string, own ClusterPart, entries []*Entry) *Plan {
	slices.SortFunc(entries, func(a, b *Entry) int { return cmp.Compare(a.Name, b.Name) })
	version := versionOf(cluster, own, entries)
	return c.keepTime(&Plan{Cluster: cluster, ClusterPart: own, Version: version, Entries: entries, ComputedAt: c.Time})
}

// keepTime sets the time of a new plan back to the time of the last one, if it has that one's
// version.
func (c Cause) keepTime(next *Plan) *Plan {
	if c.Last != nil && c.Last.Version == next.Version {
		next.ComputedAt = c.Last.ComputedAt
	}
	return next
}

// trigger returns the trigger of an entry: the old one if the entry was so already.
func (c Cause) trigger(next *Entry) *catalog.Trigger {
	if c.Last != nil {
		old := c.Last.find(next.Name)
		if old != nil && old.UID == next.UID && old.Digest == next.Digest && old.SyncRequest == next.SyncRequest {
			return old.Trigger
		}
	}
	return c.Trigger
}

func entryOf(input Input, pool *Pool) *Entry {
	service := input.Service
	entry := &Entry{Name: service.LocalName(), UID: catalog.UIDOf(service.UID), Content: pool.of(input), SyncRequest: service.SyncRequest}
	if service.Common != nil {
		entry.Name = service.Common.Name // the same text, of which there is one for all clusters
	}
	return entry
}
