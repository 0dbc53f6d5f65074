// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"reflect"
	"time"
)

// MaxRevisions is how many revisions of a service are kept.
const MaxRevisions = 20

// RevisionOutcome is the outcome of a revision.
type RevisionOutcome string

// The outcomes, as leat.fleet.v1.RevisionOutcome without its prefix.
const (
	RevisionUnknown    RevisionOutcome = ""
	RevisionHealthy    RevisionOutcome = "HEALTHY"
	RevisionFailed     RevisionOutcome = "FAILED"
	RevisionSuperseded RevisionOutcome = "SUPERSEDED"
)

// Revision is one content that a service was to run, and what came of it.
type Revision struct {
	// Number counts the service's revisions, from 1.
	Number  int64 `json:"-"`
	Content `json:"content"`
	Outcome RevisionOutcome `json:"outcome,omitempty"`
	// Problem is why it failed.
	Problem *Problem `json:"problem,omitempty"`
	// PlannedAt and SupersededAt are on the hub's clock, the others on the agent's.
	PlannedAt    time.Time `json:"plannedAt,omitzero"`
	AppliedAt    time.Time `json:"appliedAt,omitzero"`
	HealthyAt    time.Time `json:"healthyAt,omitzero"`
	SupersededAt time.Time `json:"supersededAt,omitzero"`
	Timings      Timings   `json:"timings,omitzero"`
	// TraceID is the trace of the change that brought it, as 32 hexadecimal digits; empty: not traced.
	TraceID string `json:"traceId,omitempty"`
	// FetchBegan is when gitcache began the fetch that brought it, on the hub's clock; zero: a document's change brought it.
	FetchBegan time.Time     `json:"fetchBegan,omitzero"`
	Fetch      time.Duration `json:"fetch,omitempty"`
}

// Advance returns what a service's report, received at that time, makes of its latest revision:
// nothing; that revision, changed; or a new one, behind the one that it supersedes. The zero
// Revision means that there is none yet.
func (r Revision) Advance(report *ServiceReport, at time.Time) []Revision {
	tried, ok := report.Tried()
	switch {
	case !ok:
		return nil
	case r.Number > 0 && r.Same(tried):
		return r.changedBy(report)
	}
	next := Revision{Number: r.Number + 1, Content: tried, PlannedAt: report.PlannedAt, TraceID: report.Trigger.TraceID()}
	next.FetchBegan, next.Fetch = report.Trigger.knownFetch()
	if next.PlannedAt.IsZero() {
		next.PlannedAt = at
	}
	next.note(report)
	if r.Number == 0 {
		return []Revision{next}
	}
	r.SupersededAt = at
	r.Outcome = cmp.Or(r.Outcome, RevisionSuperseded)
	return []Revision{r, next}
}

func (r Revision) changedBy(report *ServiceReport) []Revision {
	next := r
	next.note(report)
	if reflect.DeepEqual(next, r) {
		return nil
	}
	return []Revision{next}
}

// note takes over a report's facts about the revision, up to the moment at which it became healthy.
func (r *Revision) note(report *ServiceReport) {
	if r.Outcome == RevisionHealthy {
		return
	}
	if report.Timings != (Timings{}) {
		r.Timings = report.Timings
	}
	switch report.Phase {
	case PhaseHealthy:
		r.Outcome, r.Problem, r.HealthyAt = RevisionHealthy, nil, report.PhaseSince
	case PhaseProgressing:
		r.Outcome, r.Problem = RevisionUnknown, nil
	case PhaseFailed, PhaseDegraded:
		r.Outcome, r.Problem = RevisionFailed, report.Problem
	case PhaseUnknown, PhasePending, PhaseSyncing, PhasePaused:
	}
	if report.Phase != PhaseSyncing && report.Phase != PhaseFailed && r.AppliedAt.IsZero() {
		r.AppliedAt = report.AppliedAt
	}
}
