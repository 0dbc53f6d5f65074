// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"
)

// Stage is where a member stands.
type Stage string

// The stages.
const (
	// Unchanged members have the candidate's content already.
	Unchanged Stage = "unchanged"
	Waiting   Stage = "waiting"
	Admitted  Stage = "admitted"
	Arrived   Stage = "arrived"
	Failed    Stage = "failed"
	GoingBack Stage = "goingBack"
	Back      Stage = "back"
)

// Explain returns where a member of the run stands, and why it does not have the candidate yet, as a
// sentence; empty for one that has it.
func (r *Run) Explain(p *Progress) (Stage, string) {
	switch {
	case !p.isChanged():
		return Unchanged, ""
	case p.IsAdmitted && p.isUp():
		return Arrived, ""
	case p.IsAdmitted && !p.FailedAt.IsZero():
		return Failed, "it counts as failed since " + stamp(p.FailedAt)
	case p.IsAdmitted:
		return Admitted, p.unsettled()
	case p.IsWithdrawn && p.isUp():
		return Back, "it went back: " + r.Why
	case p.IsWithdrawn:
		return GoingBack, p.unsettled()
	case r.State == Running && !p.IsOnline:
		return Waiting, "its cluster is offline since " + stamp(p.OnlineSince)
	case r.State == Running && p.Wave > r.Cursor:
		return Waiting, fmt.Sprintf("wave %q has not begun; the current one is %q", r.Waves[p.Wave].Name, r.Current())
	case r.State == Running && r.Blocked.Why != "":
		return Waiting, r.Blocked.Why
	case r.State == Running:
		return Waiting, "it is the turn of others of its wave"
	}
	return Waiting, fmt.Sprintf("the rollout is %s", r.State)
}

// unsettled says why a member does not have what it should.
func (p *Progress) unsettled() string {
	switch {
	case !p.IsOnline:
		return "its cluster is offline"
	case p.Has != p.wants():
		return "its agent has not applied it yet"
	case p.Health == Failing:
		return "it is failing since " + stamp(p.FailingSince)
	}
	return "it is not healthy yet"
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
