// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// Delta leads from one version of a cluster's plan to another. It is immutable.
type Delta struct {
	// From is the version that it applies to, To the one that it leads to.
	From, To string
	// Changed are the entries that are new or different, whole, sorted by name.
	Changed []*Entry
	// Removed are the names of entries that are gone, sorted.
	Removed []string
	// ClusterPart is the new plan's, whole.
	ClusterPart
	// ComputedAt is the new plan's.
	ComputedAt time.Time
}

// Diff returns what leads from one plan of a cluster to another of the same cluster.
//
// Fields that take no part in versions are ignored, because an agent that knows the version ignores
// them, too: the commits and the traces that entries were last seen with. In a repository with many
// folders every commit moves the commit of every service, and a delta would be as large as the
// plan.
func Diff(from, to *Plan) Delta {
	d := Delta{From: from.Version, To: to.Version, ClusterPart: to.ClusterPart, ComputedAt: to.ComputedAt}
	for _, next := range to.Entries {
		if last := from.find(next.Name); last == nil || !same(last, next) {
			d.Changed = append(d.Changed, next)
		}
	}
	for _, last := range from.Entries {
		if to.find(last.Name) == nil {
			d.Removed = append(d.Removed, last.Name)
		}
	}
	return d
}

// same reports whether two entries count the same in a version; see versionOf.
func same(a, b *Entry) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Digest == b.Digest && a.SyncRequest == b.SyncRequest
}
