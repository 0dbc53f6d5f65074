// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// equalStatus compares by value, times with Equal.
func equalStatus(a, b Status) bool {
	return a.Service == b.Service && a.UID == b.UID && a.Phase == b.Phase && a.PhaseSince.Equal(b.PhaseSince) &&
		equalProblem(a.Problem, b.Problem) &&
		equalApplied(a.Observed, b.Observed) && a.Planned.Equal(b.Planned) && a.Timings == b.Timings && a.ObservedSyncRequest == b.ObservedSyncRequest &&
		equalApplied(a.Applied, b.Applied) && a.Counts == b.Counts && slices.EqualFunc(a.Objects, b.Objects, equalObject) &&
		a.Guarded.Digest == b.Guarded.Digest &&
		slices.EqualFunc(a.Drift, b.Drift, equalDrift) &&
		slices.EqualFunc(a.Tests, b.Tests, inventory.TestResult.Equal) && equalDryRun(a.DryRun, b.DryRun)
}

func equalDrift(a, b ObjectDrift) bool {
	return a.Ref == b.Ref && slices.Equal(a.Fields, b.Fields)
}

func equalProblem(a, b *Problem) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func equalApplied(a, b inventory.Applied) bool {
	return sameInputs(a, b) && slices.Equal(a.Commits, b.Commits) && a.At.Equal(b.At) && a.Took == b.Took
}

func equalObject(a, b ObjectStatus) bool {
	return a.Ref == b.Ref && a.Health == b.Health && equalProblem(a.Problem, b.Problem)
}
