// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Equal compares by value, times with time.Time.Equal.
func (s Status) Equal(other Status) bool {
	return s.Service == other.Service && s.UID == other.UID && s.Phase == other.Phase &&
		s.PhaseSince.Equal(other.PhaseSince) && s.Problem.Equal(other.Problem) &&
		s.Observed.Equal(other.Observed) && s.Planned.Equal(other.Planned) && s.Trigger == other.Trigger && s.Timings == other.Timings &&
		s.ObservedSyncRequest == other.ObservedSyncRequest && s.Applied.Equal(other.Applied) &&
		s.Counts == other.Counts && slices.EqualFunc(s.Objects, other.Objects, equalObjects) &&
		s.Guarded.Digest == other.Guarded.Digest && slices.EqualFunc(s.Drift, other.Drift, equalDrift) &&
		slices.EqualFunc(s.Tests, other.Tests, inventory.TestResult.Equal) && equalTests(s.RunningTest, other.RunningTest) &&
		equalDryRuns(s.DryRun, other.DryRun) &&
		slices.Equal(s.Warnings, other.Warnings)
}

func equalDrift(a, b ObjectDrift) bool {
	return a.Ref == b.Ref && slices.Equal(a.Fields, b.Fields)
}

func equalTests(a, b *inventory.TestResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

func equalObjects(a, b ObjectStatus) bool {
	return a.Ref == b.Ref && a.Health == b.Health && a.Problem.Equal(b.Problem)
}

func equalDryRuns(a, b *DryRun) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Created == b.Created && a.Updated == b.Updated && a.Deleted == b.Deleted && a.Unchanged == b.Unchanged &&
		slices.Equal(a.Changes, b.Changes)
}
