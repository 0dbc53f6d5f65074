// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"
)

// EventKind says what an event is about.
type EventKind string

// The kinds of events.
const (
	// Report is what an agent says of a member: Member, Has, Health, and why it fails as Reason.
	Report EventKind = "report"
	// Presence says whether a member's cluster can be seen: Member, Online.
	Presence EventKind = "presence"
	// Approve is one person's approval of what comes after a wave: Wave, Person, Reason.
	Approve EventKind = "approve"
	// Command is what a person, or a newer candidate, wants of the run: Verb, Person, Reason.
	Command EventKind = "command"
	// Membership says who joined and who left: Joined, Left.
	Membership EventKind = "membership"
	// Tick says what time it is. Decisions are made at ticks alone, so the order of what came between two
	// of them, about different members, does not matter.
	Tick EventKind = "tick"
)

// Verb is what a Command wants.
type Verb string

// The verbs.
const (
	Pause  Verb = "pause"
	Resume Verb = "resume"
	Abort  Verb = "abort"
	// Retry has a halted run go on: members that failed are given their time again.
	Retry Verb = "retry"
	// SkipWave ends the wait for the members and the soak of the current wave, once it is approved.
	SkipWave Verb = "skip-wave"
	Rollback Verb = "rollback"
	// Replace ends the run for a newer candidate. It is not for people.
	Replace Verb = "replace"
)

// Event is one observation. Its JSON is its stored form.
type Event struct {
	Kind EventKind `json:"kind"`
	// At is on the hub's clock. A run's time never goes back.
	At     time.Time `json:"at"`
	Member string    `json:"member,omitempty"`
	Has    string    `json:"has,omitempty"`
	Health Health    `json:"health,omitempty"`
	Online bool      `json:"online,omitempty"`
	Wave   string    `json:"wave,omitempty"`
	Person string    `json:"person,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Verb   Verb      `json:"verb,omitempty"`
	Joined []Member  `json:"joined,omitempty"`
	Left   []string  `json:"left,omitempty"`
}

// RefusedError says why a run cannot follow a person now.
type RefusedError struct{ Message string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// AuthorError says that a person may not approve, because they wrote a part of what the run brings.
type AuthorError struct {
	Wave, Person string
	// Groups are those of which another person has to approve; empty: anybody who may approve.
	Groups []string
}

// Error implements error.
func (e *AuthorError) Error() string {
	whom := "who may approve rollouts of the policy"
	if len(e.Groups) > 0 {
		whom = fmt.Sprintf("who is in one of these groups: %v", e.Groups)
	}
	return fmt.Sprintf("%s wrote a part of what the rollout brings, so another person has to approve wave %q, %s", e.Person, e.Wave, whom)
}

func refused(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// Check returns a *RefusedError if the run cannot follow the approval or the command, and an *AuthorError if
// the person may not approve what they wrote. Other events are
// never refused: what they say is so.
func (r *Run) Check(e Event) error {
	switch {
	case e.Kind != Approve && e.Kind != Command:
		return nil
	case r.State.HasEnded():
		return refused("the rollout has ended: %s", r.State)
	case e.Kind == Approve:
		return r.checkApproval(e)
	}
	return r.checkVerb(e.Verb)
}

func (r *Run) checkApproval(e Event) error {
	switch current := r.Current(); {
	case r.IsBack:
		return refused("the rollout goes back; there is nothing to approve")
	case current == "" || e.Wave != current:
		return refused("wave %q is not the current one, which is %q", e.Wave, current)
	case r.wave(r.Cursor).Approval == nil:
		return refused("wave %q needs no approval", current)
	case slices.ContainsFunc(r.Waves[r.Cursor].Approvals, func(g Given) bool { return g.Person == e.Person }):
		return refused("%s has approved wave %q already", e.Person, current)
	}
	if approval := r.wave(r.Cursor).Approval; approval.NotByAuthor && slices.Contains(r.Candidate.Authors, e.Person) {
		return &AuthorError{Wave: r.Current(), Person: e.Person, Groups: approval.Groups}
	}
	return nil
}

func (r *Run) checkVerb(verb Verb) error {
	switch verb {
	case Pause:
		if r.State == Paused || r.State == Halted {
			return refused("the rollout is %s already", r.State)
		}
	case Resume:
		if r.State == Halted {
			return refused("the rollout halted: retry it, skip the wave, roll it back or abort it")
		}
		if r.State != Paused {
			return refused("the rollout is not paused")
		}
	case Retry:
		if r.State != Halted {
			return refused("the rollout has not halted")
		}
	case SkipWave:
		if r.IsBack {
			return refused("the rollout goes back; it has no waves to skip")
		}
		if r.Cursor >= r.late() {
			return refused("there is no wave left to skip")
		}
		if missing := r.missing(r.Cursor); missing > 0 {
			return refused("wave %q needs %d more to approve it, which a skip does not replace; approve it first", r.Current(), missing)
		}
	case Rollback:
		if r.IsBack {
			return refused("the rollout goes back already")
		}
	case Abort, Replace:
	default:
		return refused("%q is not a command of rollouts", verb)
	}
	return nil
}

// note takes an event into the run. It decides nothing.
func (d *decider) note(e Event) {
	r := d.run
	if at := e.At.UTC(); at.After(r.Now) {
		r.Now = at
	}
	switch e.Kind {
	case Report:
		if p := d.member(e.Member); p != nil {
			d.noteReport(p, e)
		}
	case Presence:
		if p := d.member(e.Member); p != nil && p.IsOnline != e.Online {
			d.changing(p, func() { p.IsOnline, p.OnlineSince = e.Online, r.Now })
			d.breakSoak(p) // coming back, too: nobody saw it meanwhile
		}
	case Approve:
		if r.Check(e) == nil {
			w := &r.Waves[r.Cursor]
			w.Approvals = append(w.Approvals, Given{Person: e.Person, At: r.Now, Reason: e.Reason, Seq: r.Seq})
		}
	case Command:
		if r.Check(e) == nil {
			d.obey(e)
		}
	case Membership:
		d.noteMembership(e)
	case Tick:
	}
}

func (d *decider) noteReport(p *Progress, e Event) {
	if p.Has == e.Has && p.Health == e.Health {
		return
	}
	d.changing(p, func() {
		wasFailing := p.Has == e.Has && p.Health == Failing
		p.Has, p.Health = e.Has, e.Health
		if e.Health == Failing && e.Reason != "" {
			p.Why = e.Reason
		}
		if e.Health != Failing {
			p.FailingSince = time.Time{}
		} else if !wasFailing || p.FailingSince.IsZero() {
			p.FailingSince = d.run.Now
		}
	})
}

// changing changes a member, and what follows from its being available or not.
func (d *decider) changing(p *Progress, change func()) {
	wasUp := p.isUp()
	change()
	p.Seq = d.run.Seq
	switch isUp := p.isUp(); {
	case isUp:
		p.UnsettledSince, p.IsFresh = time.Time{}, false
	case wasUp || p.UnsettledSince.IsZero():
		p.UnsettledSince = d.run.Now
		d.breakSoak(p)
	}
}

// breakSoak begins the soak of the member's wave again, if that is the current one.
func (d *decider) breakSoak(p *Progress) {
	if p.Wave == d.run.Cursor && p.Wave < len(d.run.Waves) {
		d.run.Waves[p.Wave].SoakSince = time.Time{}
	}
}

func (d *decider) noteMembership(e Event) {
	r := d.run
	for _, uid := range e.Left {
		r.Members = slices.DeleteFunc(r.Members, func(p Progress) bool { return p.UID == uid })
	}
	d.index()
	for _, m := range e.Joined {
		if d.member(m.UID) != nil || len(r.Members) >= MaxMembers || m.UID == "" || m.From == "" || m.To == "" {
			continue
		}
		at := place{index: -1}
		if m.From != m.To {
			at = d.placeOf(m)
		}
		p := newProgress(m, at, r.Now)
		p.IsFresh, p.Seq = true, r.Seq
		r.Members = append(r.Members, p)
		d.byUID[m.UID] = len(r.Members) - 1
	}
	r.sort()
	d.index()
}

// placeOf returns the place of a member that joins late: in the first wave to come whose selectors fitted
// nobody until now and fit the member, and else after all others.
func (d *decider) placeOf(m Member) place {
	r := d.run
	at := place{index: r.late(), order: orderOf(r.Candidate.ID, Wave{}, m)}
	for i := r.Cursor; i < len(r.Strategy.Waves); i++ {
		w, state := r.wave(i), &r.Waves[i]
		if !state.IsEmpty || !w.fits(m) {
			continue
		}
		if state.IsEmpty = false; at.index == r.late() {
			at = place{index: i, order: orderOf(r.Candidate.ID, w, m)}
		}
	}
	return at
}

// obey carries out a command that Check allows.
func (d *decider) obey(e Event) {
	r := d.run
	said := fmt.Sprintf("%s by %s", e.Verb, e.Person)
	if e.Reason != "" {
		said += ": " + e.Reason
	}
	switch e.Verb {
	case Pause:
		r.State, r.Why = Paused, said
	case Resume:
		d.goOn()
	case Retry:
		d.forgive()
		d.goOn()
	case SkipWave:
		w := &r.Waves[r.Cursor]
		w.PassedAt, w.IsSkipped = r.Now, true
		r.Cursor++
	case Rollback:
		r.TurnedBy = []int64{r.Seq}
		d.turn(said)
	case Abort:
		d.end(Aborted, said, r.Seq)
	case Replace:
		d.end(Replaced, said, r.Seq)
	}
}

// goOn has a run that a person or failures stopped continue in its direction.
func (d *decider) goOn() {
	d.run.State, d.run.Why = Running, ""
	if d.run.IsBack {
		d.run.State = RollingBack
	}
}

// forgive gives members that are not well their time again.
func (d *decider) forgive() {
	for i := range d.run.Members {
		p := &d.run.Members[i]
		p.FailedAt = time.Time{}
		d.breakSoak(p)
		if !p.UnsettledSince.IsZero() {
			p.UnsettledSince = d.run.Now
		}
		if !p.FailingSince.IsZero() {
			p.FailingSince = d.run.Now
		}
	}
}

// turn has the run go back.
func (d *decider) turn(why string) {
	d.run.State, d.run.IsBack, d.run.Why = RollingBack, true, why
}

// end ends the run.
func (d *decider) end(state State, why string, because ...int64) {
	r := d.run
	r.State, r.Why, r.EndedAt, r.WakeAt, r.Blocked = state, why, r.Now, time.Time{}, Blocked{}
	d.decide(Decision{Kind: Done, Why: string(state)}, because...)
}
