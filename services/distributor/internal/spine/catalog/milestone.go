// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// maxDelivery bounds a measured delivery. An agent repeats the time of its plan to the hub, so a false
// time changes the durations of the agent's own deliveries, and none by more than a day.
const maxDelivery = 24 * time.Hour

// DeliveryStage is how far the delivery of a revision has come.
type DeliveryStage string

// The stages.
const (
	DeliveryApplied DeliveryStage = "applied"
	DeliveryHealthy DeliveryStage = "healthy"
)

// Milestone is a stage that a revision has reached, or its end. A revision has each at most once.
type Milestone struct {
	// Stage is empty if the revision ended without being healthy.
	Stage DeliveryStage
	// Took is how long the way from the plan to Stage took, on the hub's clock.
	Took time.Duration
	// Outcome is how the revision ended; RevisionUnknown: it did not.
	Outcome RevisionOutcome
	// Trigger is what brought the revision, as its agent repeats it. Nil: Stage is empty, or it is not known.
	Trigger *Trigger
}

// Milestones returns what a report, received at that time, adds to revisions: after is what
// before.Advance returned for it, and trigger is the report's.
func Milestones(before Revision, after []Revision, at time.Time, trigger *Trigger) []Milestone {
	var all []Milestone
	for _, next := range after {
		last := Revision{}
		if next.Number == before.Number {
			last = before
		}
		took := min(max(0, at.Sub(next.PlannedAt)), maxDelivery)
		if last.AppliedAt.IsZero() && !next.AppliedAt.IsZero() {
			all = append(all, Milestone{Stage: DeliveryApplied, Took: took, Trigger: trigger})
		}
		switch {
		case next.Outcome == RevisionHealthy && last.Outcome != RevisionHealthy:
			all = append(all, Milestone{Stage: DeliveryHealthy, Took: took, Outcome: RevisionHealthy, Trigger: trigger})
		case next.Outcome != RevisionHealthy && !next.SupersededAt.IsZero():
			all = append(all, Milestone{Outcome: next.Outcome})
		}
	}
	return all
}
