// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package report holds what the agent reports of its services and their objects, as values.
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Phase is how far a service is on its way from commit to healthy.
type Phase int

// The phases.
const (
	Pending     Phase = iota + 1 // its sources are not resolved, or the agent has not started on it
	Syncing                      // downloading, rendering or applying
	Progressing                  // everything is applied, but not healthy yet
	Healthy                      // everything is applied and healthy
	Degraded                     // everything is applied; objects are unhealthy permanently or for too long
	Failed                       // rendering or applying failed; the last good state stays
	Paused                       // its owner asked to leave it unchanged
)

// String implements fmt.Stringer.
func (p Phase) String() string {
	names := [...]string{"", "Pending", "Syncing", "Progressing", "Healthy", "Degraded", "Failed", "Paused"}
	if p < Pending || int(p) >= len(names) {
		return "Unknown"
	}
	return names[p]
}

// Bounds of lists in reports.
const (
	// MaxObjects bounds Status.Objects, Status.Drift and Guarded.Objects.
	MaxObjects = 50
	// MaxDriftFields bounds ObjectDrift.Fields.
	MaxDriftFields = 20
	// MaxDryRunChanges bounds DryRun.Changes.
	MaxDryRunChanges = 50
	// MaxWarnings bounds Status.Warnings.
	MaxWarnings = 5
	// MaxWarning bounds the bytes of a warning.
	MaxWarning = 200
)

// Warnings returns the warnings of a render as they are reported: each once, in one line, cut, and
// without control characters. The last one counts the omitted ones.
func Warnings(all []string) []string {
	var kept []string
	seen, dropped := map[string]bool{}, 0
	for _, warning := range all {
		warning = Line(warning)
		switch {
		case warning == "" || seen[warning]:
		case len(kept) == MaxWarnings:
			dropped++
		default:
			kept, seen[warning] = append(kept, warning), true
		}
	}
	if dropped > 0 {
		kept[MaxWarnings-1] = fmt.Sprintf("%d more warnings stand in the agent's log", dropped+1)
	}
	return kept
}

// Line returns a text in one line, without control characters, and cut to MaxWarning bytes.
func Line(text string) string {
	const more = "…"
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(text) <= MaxWarning {
		return text
	}
	return strings.ToValidUTF8(text[:MaxWarning-len(more)], "") + more
}

// Status is the state of one service. It is an immutable value.
type Status struct {
	// Service and UID identify the service.
	Service, UID string
	// Phase is the current phase, PhaseSince its beginning.
	Phase      Phase
	PhaseSince time.Time
	// Problem is the current failure, or nil.
	Problem *reason.Problem
	// Observed are the inputs of the latest run, or of the change that waits.
	Observed inventory.Applied
	// Planned is the time of the plan that brought them, on the hub's clock. Zero: unknown.
	Planned time.Time
	// Trigger is what brought them, as that plan says.
	Trigger plan.Trigger
	// Timings are the times of the latest change. Zero before the first change in this process.
	Timings Timings
	// ObservedSyncRequest is the latest sync request that was carried out.
	ObservedSyncRequest string
	// Applied is the state that was last applied completely.
	Applied inventory.Applied
	// Counts counts the objects by health.
	Counts health.Counts
	// Objects are the objects that need attention, at most MaxObjects.
	Objects []ObjectStatus
	// Drift are objects that others have changed, at most MaxObjects: in drift mode report all that
	// differ, in mode correct the ones that are changed again and again.
	Drift []ObjectDrift
	// Tests are the results of the latest tests, in their order. Empty while tests run, and if
	// there are no tests.
	Tests []inventory.TestResult
	// RunningTest is the test that runs now, with its state as its message. Nil: none does.
	RunningTest *inventory.TestResult
	// DryRun lists the changes that a run would apply, if the service is a dry run. Nil: not known
	// yet, or no dry run.
	DryRun *DryRun
	// Guarded lists the objects that the guard keeps from being deleted. Zero: nothing.
	Guarded Guarded
	// Warnings are the renderers' warnings from the latest render, as [Warnings] returns them.
	Warnings []string
}

// Guarded is a prune that waits for a person's confirmation.
type Guarded struct {
	// Digest identifies the objects. The confirmation must name it.
	Digest string
	// Objects are the objects that would be deleted, at most MaxObjects.
	Objects []inventory.Ref
}

// Timings are the durations of a change's steps. A step that was not reached is zero. It is
// comparable.
type Timings struct {
	// Arrived is when the plan entry arrived.
	Arrived time.Time
	// Download is the time until the bundles were there, Render the time to turn them into objects,
	// Apply the time until the cluster had accepted them.
	Download, Render, Apply time.Duration
	// RenderWait is how long the builds of kustomizations waited for their turn. Render is without
	// it.
	RenderWait time.Duration
	// Healthy is the time from the arrival until everything was healthy for the first time.
	Healthy time.Duration
}

// ObjectStatus is the state of one object.
type ObjectStatus struct {
	Ref     inventory.Ref
	Health  health.Verdict
	Problem *reason.Problem // nil: nothing is wrong
}

// HealthState returns the state that the object is counted under. An object that the cluster
// refused is Degraded, whatever the health of its previous form.
func (o ObjectStatus) HealthState() health.State {
	if o.Problem != nil {
		return health.Degraded
	}
	return o.Health.State
}

// Attention returns the objects that need a person's attention, failed ones first, at most
// MaxObjects.
func Attention(all []ObjectStatus) []ObjectStatus {
	var failed, others []ObjectStatus
	for _, o := range all {
		switch o.HealthState() {
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

// Unhealthy returns the problem that objects are in one of the given states. It names first the
// first object that has a message, and adds the message.
func Unhealthy(what string, objects []ObjectStatus, states ...health.State) *reason.Problem {
	var named []inventory.Ref
	message := ""
	for _, o := range objects {
		switch {
		case !slices.Contains(states, o.Health.State):
		case message == "" && o.Health.Message != "":
			message = ": " + o.Health.Message
			named = slices.Insert(named, 0, o.Ref)
		default:
			named = append(named, o.Ref)
		}
	}
	return reason.Errorf(reason.HealthTimeout, "%s: %s%s", what, inventory.Describe(named), message)
}

// ObjectDrift is an object that others have changed.
type ObjectDrift struct {
	Ref inventory.Ref
	// Fields are the differing fields, at most MaxDriftFields. Empty: the object was deleted. Values
	// of a Secret, and values that contain a secret of the service's configuration, are masked.
	Fields []fields.Change
}
