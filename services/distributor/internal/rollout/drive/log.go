// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"fmt"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// Replay repeats the decisions of a log, and returns the first difference as a sentence, or "".
func (l *Log) Replay() string {
	run, err := rollout.Begin(l.Record.Start.Candidate, l.Record.Start.Strategy, l.Record.Start.Members, l.Record.Start.At)
	if err != nil {
		return "the rollout cannot begin: " + err.Error()
	}
	_, decisions := run.Advance(l.Events...)
	return differ(l.Decisions, decisions)
}

func differ(recorded, computed []rollout.Decision) string {
	for i := range min(len(recorded), len(computed)) {
		a, b := recorded[i], computed[i]
		if a.Kind != b.Kind || a.Member != b.Member || a.Wave != b.Wave || !a.At.Equal(b.At) || a.Why != b.Why || !slices.Equal(a.Because, b.Because) {
			return fmt.Sprintf("decision %d was %s of %q and is %s of %q now", i+1, a.Kind, a.Member, b.Kind, b.Member)
		}
	}
	if len(recorded) != len(computed) {
		return fmt.Sprintf("%d decisions were recorded, and %d are made now", len(recorded), len(computed))
	}
	return ""
}

// ApproversOf returns the groups of which a person has to approve the next waves; none if every
// approver may.
func (r *Record) ApproversOf(wave string) []string {
	for _, w := range r.Start.Strategy.Waves {
		if w.Name == wave && w.Approval != nil {
			return w.Approval.Groups
		}
	}
	return nil
}

// Follow returns the step to write if the rollout follows a person. The error is a
// *rollout.RefusedError or a *rollout.AuthorError. To retry a rollout that has ended is to try its
// content once more, with another rollout.
func (r *Record) Follow(e rollout.Event) (Step, error) {
	next := *r
	if e.Kind == rollout.Command && e.Verb == rollout.Retry && len(r.Refused) > 0 && r.Run.State.HasEnded() {
		next.Refused = nil
		return Step{Record: &next, Before: r}, nil
	}
	if err := r.Run.Check(e); err != nil {
		return Step{}, err
	}
	var decisions []rollout.Decision
	next.Run, decisions = r.Run.Advance(e)
	if next.Run.State.HasEnded() {
		next.refuse()
	}
	return Step{Record: &next, Before: r, Events: []rollout.Event{e}, Decisions: decisions}, nil
}
