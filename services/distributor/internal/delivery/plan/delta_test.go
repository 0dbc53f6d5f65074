// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// edited is the catalog after a random number of edits: services that are new, gone, re-created
// under another uid, renamed, changed in their spec, and content that moved or that is the same
// under another commit.
func edited(t *rapid.T, inputs []plan.Input) []plan.Input {
	next := slices.Clone(inputs)
	for range rapid.IntRange(0, 6).Draw(t, "edits") {
		edit := rapid.IntRange(0, 5).Draw(t, "edit")
		if len(next) == 0 || edit == 0 {
			next = append(next, drawInputs(t)...)
			next = slices.CompactFunc(sorted(next), func(a, b plan.Input) bool { return a.Service.Name == b.Service.Name })
			continue
		}
		i := rapid.IntRange(0, len(next)-1).Draw(t, "which")
		service := *next[i].Service
		switch edit {
		case 1:
			next = slices.Delete(next, i, i+1)
			continue
		case 2:
			service.UID += "anew"
		case 3:
			service.Name += "renamed"
		case 4:
			service.Spec.Options = &syncpolicy.Options{Paused: !service.Spec.Wanted().Paused}
		case 5:
			next[i].Snapshots = slices.Clone(next[i].Snapshots)
			next[i].Snapshots[0] = &catalog.Snapshot{
				Commit: small.Draw(t, "commit"), Digest: digest.FromBytes([]byte(small.Draw(t, "content"))),
			}
		}
		next[i].Service = &service
	}
	return next
}

func sorted(inputs []plan.Input) []plan.Input {
	return slices.SortedStableFunc(slices.Values(inputs), func(a, b plan.Input) int {
		return strings.Compare(a.Service.Name, b.Service.Name)
	})
}

// seen leaves out what takes no part in a plan's version: when, with which commit and with which tag
// content was seen.
var seen = cmp.Options{
	cmpopts.IgnoreFields(plan.Entry{}, "Trigger"), cmpopts.IgnoreFields(plan.Bundle{}, "Commit", "Version"),
	cmpopts.EquateComparable(digest.Digest{}), cmpopts.EquateEmpty(),
}

// applied returns the entries that an agent has after a delta.
func applied(old *plan.Plan, delta plan.Delta) []*plan.Entry {
	entries := slices.DeleteFunc(slices.Clone(old.Entries), func(e *plan.Entry) bool {
		isNamed := func(changed *plan.Entry) bool { return changed.Name == e.Name }
		return slices.Contains(delta.Removed, e.Name) || slices.ContainsFunc(delta.Changed, isNamed)
	})
	entries = append(entries, delta.Changed...)
	slices.SortFunc(entries, func(a, b *plan.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

func TestApplyingTheDifferenceGivesTheNewPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := drawInputs(t)
		after := edited(t, before)
		if rapid.Bool().Draw(t, "unrelated") {
			after = drawInputs(t)
		}
		first := plan.Cause{Time: time.Unix(1, 0), Trigger: &catalog.Trigger{Traceparent: "x"}}
		last := plan.Compute("one", drawPart(t), before, first)
		second := plan.Cause{Time: time.Unix(2, 0), Trigger: &catalog.Trigger{Traceparent: "y"}, Last: last}
		next := plan.Compute("one", drawPart(t), after, second)
		delta := plan.Diff(last, next)
		if diff := cmp.Diff(next.Entries, applied(last, delta), seen); diff != "" {
			t.Fatalf("diff(old, new) applied to old (-want +got):\n%s", diff)
		}
		if delta.From != last.Version || delta.To != next.Version || !cmp.Equal(delta.ClusterPart, next.ClusterPart) || delta.ComputedAt != next.ComputedAt {
			t.Fatalf("got %+v, want it to lead from %s to %s", delta, last.Version, next.Version)
		}
		checkMinimal(t, last, next, delta)
	})
}

// checkMinimal has a delta name a service if and only if any value of it differs, and what it names
// be exact.
func checkMinimal(t *rapid.T, last, next *plan.Plan, delta plan.Delta) {
	var changed []*plan.Entry
	for _, entry := range next.Entries {
		if old, ok := last.Entry(entry.Name); !ok || !cmp.Equal(old, *entry, seen) {
			changed = append(changed, entry)
		}
	}
	if diff := cmp.Diff(changed, delta.Changed, cmpopts.EquateComparable(digest.Digest{})); diff != "" {
		t.Fatalf("changed (-want +got):\n%s", diff)
	}
	var removed []string
	for _, entry := range last.Entries {
		if _, ok := next.Entry(entry.Name); !ok {
			removed = append(removed, entry.Name)
		}
	}
	if diff := cmp.Diff(removed, delta.Removed); diff != "" {
		t.Fatalf("removed (-want +got):\n%s", diff)
	}
	if same := last.Version == next.Version; same != (len(changed)+len(removed) == 0 && cmp.Equal(last.ClusterPart, next.ClusterPart)) {
		t.Fatalf("same version: %v, but %d changed and %d removed", same, len(changed), len(removed))
	}
}

// TestCommitsAloneMakeNoDelta is the repository with many folders: one commit changes one of them.
func TestCommitsAloneMakeNoDelta(t *testing.T) {
	t.Parallel()
	var before, after []plan.Input
	for _, name := range []string{"a", "b", "c"} {
		service := &catalog.Service{
			Metadata: catalog.Metadata{Name: name, UID: name},
			Spec:     catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "mono", Path: name}}},
		}
		content, changed := digest.FromBytes([]byte(name)), digest.FromBytes([]byte(name))
		if name == "b" {
			changed = digest.FromBytes([]byte("changed"))
		}
		before = append(before, plan.Input{Service: service, Snapshots: []*catalog.Snapshot{{Commit: "c1", Digest: content}}})
		after = append(after, plan.Input{Service: service, Snapshots: []*catalog.Snapshot{{Commit: "c2", Digest: changed}}})
	}
	delta := plan.Diff(plan.Compute("one", plan.ClusterPart{}, before, plan.Cause{}), plan.Compute("one", plan.ClusterPart{}, after, plan.Cause{}))
	if len(delta.Changed) != 1 || delta.Changed[0].Name != "b" || delta.Changed[0].Bundles[0].Commit != "c2" || delta.Removed != nil {
		t.Errorf("got %+v, want b alone, with its new commit", delta)
	}
}
