// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"
)

// EventKind is the subject of an event.
type EventKind string

// The kinds of events.
const (
	// Report is an agent's report of a member: Member, Has, Health, and why it fails as Reason.
	Report EventKind = "report"
	// Presence reports whether a member's cluster can be seen, or a person holds the member: Member, Online, Held.
	Presence EventKind = "presence"
	// Approve is one person's approval of what comes after a wave: Wave, Person, Reason.
	Approve EventKind = "approve"
	// Command is the wish of a person, or of a newer candidate, for the run: Verb, Person, Reason.
	Command EventKind = "command"
	// Membership lists members that joined and that left: Joined, Left.
	Membership EventKind = "membership"
	// Tick has the time. Decisions are made at ticks alone, so the order of events between two of
	// them, about different members, does not matter.
	Tick EventKind = "tick"
)

// Verb is the wish of a Command.
type Verb string

// The verbs.
const (
	Pause  Verb = "pause"
	Resume Verb = "resume"
	Abort  Verb = "abort"
	// Retry makes a halted run continue: members that failed are given their time again.
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
	// Held is true of a member that is not online because a person holds it.
	Held   bool   `json:"held,omitempty"`
	Wave   string `json:"wave,omitempty"`
	Person string `json:"person,omitempty"`
	Reason string `json:"reason,omitempty"`
	Verb   Verb   `json:"verb,omitempty"`
	// Until is when a Pause ends by itself. Zero: it does not.
	Until  time.Time `json:"until,omitzero"`
	Joined []Member  `json:"joined,omitempty"`
	Left   []string  `json:"left,omitempty"`
}

// RefusedError is why a run cannot follow a person now.
type RefusedError struct{ Message string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// AuthorError means that a person may not approve, because they wrote a part of what the run
// brings.
type AuthorError struct {
	Wave, Person string
	// Groups are the groups of which another person has to approve; empty: any approver.
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

// Check returns a *RefusedError if the run cannot follow the approval or the command, and an
// *AuthorError if the person may not approve what they wrote. Other events are never refused: they
// are facts.
func (h *Header) Check(e Event) error {
	switch {
	case e.Kind != Approve && e.Kind != Command:
		return nil
	case h.State.HasEnded():
		return refused("the rollout has ended: %s", h.State)
	case e.Kind == Approve:
		return h.checkApproval(e)
	}
	return h.checkVerb(e.Verb, e.Until)
}

func (h *Header) checkApproval(e Event) error {
	switch current := h.Current(); {
	case h.IsBack:
		return refused("the rollout goes back; there is nothing to approve")
	case current == "" || e.Wave != current:
		return refused("wave %q is not the current one, which is %q", e.Wave, current)
	case h.wave(h.Cursor).Approval == nil:
		return refused("wave %q needs no approval", current)
	case slices.ContainsFunc(h.Waves[h.Cursor].Approvals, func(g Given) bool { return g.Person == e.Person }):
		return refused("%s has approved wave %q already", e.Person, current)
	}
	if approval := h.wave(h.Cursor).Approval; approval.NotByAuthor && slices.Contains(h.Candidate.Authors, e.Person) {
		return &AuthorError{Wave: h.Current(), Person: e.Person, Groups: approval.Groups}
	}
	return nil
}

func (h *Header) checkVerb(verb Verb, until time.Time) error {
	switch verb {
	case Pause:
		if h.State == Paused && until.Equal(h.Until) || h.State == Halted {
			return refused("the rollout is %s already", h.State)
		}
	case Resume:
		if h.State == Halted {
			return refused("the rollout halted: retry it, skip the wave, roll it back or abort it")
		}
		if h.State != Paused {
			return refused("the rollout is not paused")
		}
	case Retry:
		if h.State != Halted {
			return refused("the rollout has not halted")
		}
	case SkipWave:
		if h.IsBack {
			return refused("the rollout goes back; it has no waves to skip")
		}
		if h.Cursor >= h.late() {
			return refused("there is no wave left to skip")
		}
		if missing := h.missing(h.Cursor); missing > 0 {
			return refused("wave %q needs %d more to approve it, which a skip does not replace; approve it first", h.Current(), missing)
		}
	case Rollback:
		if h.IsBack {
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
		d.noteReport(e)
	case Presence:
		d.notePresence(e)
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

func (d *decider) notePresence(e Event) {
	p := d.member(e.Member)
	if p == nil || p.IsOnline == e.Online && p.IsHeld == e.Held {
		return
	}
	isSeen := p.IsOnline != e.Online
	d.changing(e.Member, func(p *Progress) {
		if isSeen || p.IsHeld { // a silence begins when nobody holds the member any more
			p.OnlineSince = d.run.Now
		}
		p.IsOnline, p.IsHeld = e.Online, e.Held
	})
	if isSeen {
		d.breakSoak(p) // coming back, too: it was not visible meanwhile
	}
}

func (d *decider) noteReport(e Event) {
	if p := d.member(e.Member); p == nil || p.Has == e.Has && p.Health == e.Health {
		return
	}
	d.changing(e.Member, func(p *Progress) {
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
func (d *decider) changing(uid string, change func(*Progress)) {
	p := d.edit(d.indexes[uid])
	wasUp := p.isUp()
	change(p)
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
	if len(e.Left) > 0 {
		left := make(map[string]struct{}, len(e.Left))
		for _, uid := range e.Left {
			left[uid] = struct{}{}
		}
		r.Members = slices.DeleteFunc(r.Members, func(p *Progress) bool {
			_, hasLeft := left[p.UID]
			return hasLeft
		})
		d.find()
	}
	var joined []*Progress
	for _, m := range e.Joined {
		isThere := d.indexes[m.UID] >= 0
		if isThere || len(r.Members)+len(joined) >= MaxMembers || m.UID == "" || m.From == "" || m.To == "" {
			continue
		}
		at := place{index: -1}
		if m.From != m.To {
			at = d.placeOf(m)
		}
		p := newProgress(m, at, r.Now)
		p.IsFresh, p.Seq = true, r.Seq
		joined, d.indexes[m.UID], d.own[p] = append(joined, p), len(r.Members), struct{}{}
	}
	r.Members = merge(r.Members, joined)
	r.Counts.Members = len(r.Members)
	d.find()
}

// merge returns the members, which are sorted, with the ones that joined.
func merge(members, joined []*Progress) []*Progress {
	if len(joined) == 0 {
		return members
	}
	slices.SortFunc(joined, compareMembers)
	all := make([]*Progress, 0, len(members)+len(joined))
	for _, p := range joined {
		i, _ := slices.BinarySearchFunc(members, p, compareMembers)
		all, members = append(append(all, members[:i]...), p), members[i:]
	}
	return append(all, members...)
}

// placeOf returns the place of a member that joins late: in the first wave to come whose selectors
// fitted no member until now and fit the member, and else after all others.
func (d *decider) placeOf(m Member) place {
	r := d.run
	at := place{index: r.late(), order: orderOf(r.Candidate.ID, Wave{}, m)}
	for i := r.Cursor; i < len(r.Strategy.Waves); i++ {
		w, state := r.wave(i), &r.Waves[i]
		if !state.IsEmpty || !w.Fits(m) {
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
		if !e.Until.IsZero() {
			said += " until " + e.Until.UTC().Format(time.RFC3339)
		}
		r.State, r.Stop = Paused, Stop{Why: said, Until: e.Until.UTC()}
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
		d.turn(Stop{Why: said})
	case Abort:
		d.end(Aborted, Stop{Why: said}, r.Seq)
	case Replace:
		d.end(Replaced, Stop{Why: said}, r.Seq)
	}
}

// goOn has a run that a person or failures stopped continue in its direction.
func (d *decider) goOn() {
	d.run.State, d.run.Stop = Running, Stop{}
	if d.run.IsBack {
		d.run.State = RollingBack
	}
}

// forgive gives members that are not well their time again.
func (d *decider) forgive() {
	for i, p := range d.run.Members {
		d.breakSoak(p)
		next := *p
		next.FailedAt = time.Time{}
		if !p.UnsettledSince.IsZero() {
			next.UnsettledSince = d.run.Now
		}
		if !p.FailingSince.IsZero() {
			next.FailingSince = d.run.Now
		}
		if next != *p {
			*d.edit(i) = next
		}
	}
}

// turn has the run go back.
func (d *decider) turn(why Stop) {
	d.run.State, d.run.IsBack, d.run.Stop = RollingBack, true, why
}

// end ends the run.
func (d *decider) end(state State, why Stop, because ...int64) {
	r := d.run
	r.State, r.Stop, r.EndedAt, r.WakeAt, r.Blocked = state, why, r.Now, time.Time{}, Blocked{}
	d.decide(Decision{Kind: Done, Why: string(state)}, because...)
}
