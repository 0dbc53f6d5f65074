// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Phase is where a service stands on its way from commit to healthy.
type Phase int

// The phases.
const (
	Pending     Phase = iota + 1 // the sources are not resolved, or the service is not taken up yet
	Syncing                      // downloading, rendering or applying
	Progressing                  // everything is applied; health is not reached yet
	Healthy                      // everything is applied and healthy
	Degraded                     // everything is applied; some objects are unhealthy for good or for too long
	Failed                       // could not be rendered or applied; the last good state stays
	Paused                       // left alone at its owner's wish
)

// String implements fmt.Stringer.
func (p Phase) String() string {
	names := [...]string{"", "Pending", "Syncing", "Progressing", "Healthy", "Degraded", "Failed", "Paused"}
	if p < Pending || int(p) >= len(names) {
		return "Unknown"
	}
	return names[p]
}

// Status is what became of one service. It is a value; nobody changes its slices.
type Status struct {
	// Service and UID name the service.
	Service, UID string
	// Phase is where it stands, PhaseSince since when.
	Phase      Phase
	PhaseSince time.Time
	// Problem is what is wrong; nil when nothing is.
	Problem *Problem
	// Observed are the inputs that were last tried, or that wait to be.
	Observed inventory.Applied
	// Planned is the time of the plan with which they came, on the hub's clock. Zero: unknown.
	Planned time.Time
	// Timings are those of the latest change. Zero before the first of this process.
	Timings Timings
	// ObservedSyncRequest is the sync request that was last carried out.
	ObservedSyncRequest string
	// Applied is what was last applied completely.
	Applied inventory.Applied
	// Counts counts the objects by health.
	Counts health.Counts
	// Objects are those that need attention, MaxObjects at the most.
	Objects []ObjectStatus
	// Drift are objects that others have changed, MaxObjects at the most: in drift mode report all that differ, in mode correct
	// those that are changed again and again.
	Drift []ObjectDrift
	// Tests are the results of the latest tests, in their order. Empty while they run, and where there are none.
	Tests []inventory.TestResult
	// DryRun is what would be applied, where nothing is. Nil: it is not known yet, or the service is no dry run.
	DryRun *DryRun
	// Guarded is what the guard keeps. Zero when it keeps nothing.
	Guarded Guarded
}

// Guarded is a prune that waits for the agreement of a person.
type Guarded struct {
	// Digest names the objects, and is what the agreement has to name.
	Digest string
	// Objects are those that would leave the service, MaxObjects at the most.
	Objects []inventory.Ref
}

// Timings tell how long a change took. A step that was not reached is zero. It is comparable.
type Timings struct {
	// Arrived is when the plan entry came.
	Arrived time.Time
	// Download is how long the bundles took to come, Render to become objects, Apply to be accepted by the cluster.
	Download, Render, Apply time.Duration
	// Healthy is how long it took from the arrival until everything was healthy for the first time.
	Healthy time.Duration
}

// stage is how far a change has come.
type stage int

const (
	untried stage = iota
	applied       // it is in the cluster
	settled       // and was healthy once
)

// MaxObjects bounds Status.Objects.
const MaxObjects = 50

// ObjectStatus is one object and how it fares.
type ObjectStatus struct {
	Ref     inventory.Ref
	Health  health.Verdict
	Problem *Problem // nil when nothing is wrong
}

// attention picks the objects that a person should look at, those that failed first.
func attention(all []ObjectStatus) []ObjectStatus {
	var failed, others []ObjectStatus
	for _, o := range all {
		switch counted(o) {
		case health.Degraded, health.Missing:
			failed = append(failed, o)
		case health.Unknown, health.Progressing, health.Terminating:
			others = append(others, o)
		case health.Healthy:
		}
	}
	picked := append(failed, others...)
	return picked[:min(len(picked), MaxObjects)]
}
