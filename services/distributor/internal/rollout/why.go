// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// Stage is a member's stage.
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

// Explain returns the stage of a member of the run, and why it does not have the candidate yet, as
// a sentence; empty for one that has it.
func (h *Header) Explain(p *Progress) (Stage, string) {
	switch {
	case !p.isChanged():
		return Unchanged, ""
	case p.IsAdmitted && p.isUp():
		return Arrived, ""
	case p.IsAdmitted && !p.FailedAt.IsZero():
		return Failed, "it counts as failed since " + stamp(p.FailedAt) + p.cause()
	case p.IsAdmitted:
		return Admitted, p.unsettled()
	case p.IsWithdrawn && p.isUp() && p.Why != "":
		return Back, "it went back because it failed: " + p.Why
	case p.IsWithdrawn && p.isUp():
		return Back, "it went back: " + h.Says(Failure.shown)
	case p.IsWithdrawn:
		return GoingBack, p.unsettled()
	case h.State == Running && !p.IsOnline:
		return Waiting, p.absence()
	case h.State == Running && p.Wave > h.Cursor:
		return Waiting, fmt.Sprintf("wave %q has not begun; the current one is %q", h.Waves[p.Wave].Name, h.Current())
	case h.State == Running && h.Blocked.Why != "":
		return Waiting, h.Blocked.Why
	case h.State == Running:
		return Waiting, "it is the turn of others of its wave"
	}
	return Waiting, fmt.Sprintf("the rollout is %s", h.State)
}

// unsettled explains why a member does not have what it should.
func (p *Progress) unsettled() string {
	switch {
	case !p.IsOnline:
		return p.absence()
	case p.Has != p.wants():
		return "its agent has not applied it yet"
	case p.Health == Failing:
		return "it is failing since " + stamp(p.FailingSince) + p.cause()
	}
	return "it is not healthy yet"
}

// absence explains why a member is not online.
func (p *Progress) absence() string {
	if p.IsHeld {
		return "it is paused, or a dry run"
	}
	return "its cluster is offline since " + stamp(p.OnlineSince)
}

// cause returns why the member failed, to be added to a sentence; empty if that is not known.
func (p *Progress) cause() string {
	if p.Why == "" {
		return ""
	}
	return ": " + p.Why
}

// stopOf returns why a run stops because of members that failed.
func stopOf(why string, failed []*Progress) Stop {
	s := Stop{Why: why, Failed: len(failed)}
	for _, p := range failed[:min(len(failed), maxNamed)] {
		s.Failures = append(s.Failures, Failure{Name: p.Name, Why: p.Why})
	}
	return s
}

// Says returns why the run is not running, with the members that failed as show returns them.
func (s Stop) Says(show func(Failure) string) string {
	text := s.Why
	for i, failure := range s.Failures {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		text += separator + show(failure)
	}
	if more := s.Failed - len(s.Failures); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// name returns the path of the member.
func (f Failure) name() string { return f.Name }

// shown returns the name of the member as people write it.
func (f Failure) shown() string { return objectname.Display(f.Name) }

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// maxNamed bounds the members that Blocked names.
const maxNamed = 8
