// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which services come to a new content, and when: it moves the members of a
// rollout in waves, stops when they fail, and takes them back.
//
// # Promises
//
// A [Run] is the result of its events. It depends on nothing else: no clock, no store, no
// randomness. The same events give the same decisions on every replica and after every restart.
//
//   - No member is admitted while that would make more members unavailable than the strategy allows. Members
//     that are offline or not healthy for another reason count.
//   - No wave begins before the one before it was healthy for its soak, and approved where it asks for that.
//   - A run ends, or waits for a member, a person or a time that [Run.Blocked] names.
//
// # States
//
// A run is running, paused, halted or rolling back, and then completed, rolled back, aborted or
// replaced. A halted run waits for a person. A rollback that fails halts and does not turn round.
//
// # What it does not do
//
// It knows no services, clusters or commits: contents are names that are equal or not. It neither
// asks who a person is nor writes anything. Package rollouts does.
package rollout

import (
	"slices"
	"time"
)

// DecisionKind is the action of the caller of a run.
type DecisionKind string

// The kinds of decisions.
const (
	// Admit has a member run the candidate.
	Admit DecisionKind = "admit"
	// Withdraw has it run again what it had.
	Withdraw DecisionKind = "withdraw"
	// Ask asks people to approve what comes after a wave.
	Ask DecisionKind = "ask"
	// Wake wants a tick at a time.
	Wake DecisionKind = "wake"
	// Halt stops the run until a person has looked.
	Halt DecisionKind = "halt"
	Done DecisionKind = "done"
)

// maxBecause bounds the events that a decision names.
const maxBecause = 16

// Decision is one thing to do. Its JSON is its stored form.
type Decision struct {
	// Number counts the decisions of a run, from 1.
	Number int64        `json:"number"`
	Kind   DecisionKind `json:"kind"`
	Member string       `json:"member,omitempty"`
	Wave   string       `json:"wave,omitempty"`
	At     time.Time    `json:"at,omitzero"`
	Why    string       `json:"why,omitempty"`
	// Because are the numbers of the events that led to it.
	Because []int64 `json:"because"`
}

// decider takes events into a run, and collects what it decides.
type decider struct {
	run *Run
	// indexes are the indexes of the members that the events name, in Members; -1 for others.
	indexes map[string]int
	// own are the members that this decider made, which nothing else shares.
	own map[*Progress]struct{}
	out []Decision
}

func newDecider(r *Run, events []Event) *decider {
	d := &decider{run: r, indexes: map[string]int{}, own: map[*Progress]struct{}{}}
	for i := range events {
		if uid := events[i].Member; uid != "" {
			d.indexes[uid] = -1
		}
		for _, m := range events[i].Joined {
			d.indexes[m.UID] = -1
		}
	}
	d.find()
	return d
}

// find brings indexes in line with Members.
func (d *decider) find() {
	if len(d.indexes) == 0 {
		return
	}
	for uid := range d.indexes {
		d.indexes[uid] = -1
	}
	for i, p := range d.run.Members {
		if _, isNamed := d.indexes[p.UID]; isNamed {
			d.indexes[p.UID] = i
		}
	}
}

// member returns a member that an event names, or nil.
func (d *decider) member(uid string) *Progress {
	if i, ok := d.indexes[uid]; ok && i >= 0 {
		return d.run.Members[i]
	}
	return nil
}

// edit returns the member at an index, to be changed.
func (d *decider) edit(i int) *Progress {
	p := d.run.Members[i]
	if _, isOwn := d.own[p]; !isOwn {
		p = new(*p)
		d.run.Members[i], d.own[p] = p, struct{}{}
	}
	return p
}

// decide adds a decision that the event of this moment and others led to.
func (d *decider) decide(next Decision, because ...int64) {
	d.run.Decided++
	next.Number = d.run.Decided
	next.Because = []int64{d.run.Seq}
	for _, seq := range because {
		if seq > 0 && !slices.Contains(next.Because, seq) && len(next.Because) < maxBecause {
			next.Because = append(next.Because, seq)
		}
	}
	slices.Sort(next.Because)
	d.out = append(d.out, next)
}

// Next returns the run after the event, and what it decides. The receiver stays as it was. A run that
// has ended does not change.
func (r Run) Next(e Event) (Run, []Decision) {
	next, decisions := r.Advance(e)
	return next, decisions
}

// Advance is Next for several events, one after the other. It costs a few scans of the members, and a copy of
// each one that changes.
func (r Run) Advance(events ...Event) (Run, []Decision) {
	r = r.clone()
	d := newDecider(&r, events)
	for _, e := range events {
		if r.State.HasEnded() {
			break
		}
		r.Seq++
		d.note(e)
		if e.Kind == Tick {
			d.step()
		}
	}
	r.count()
	return r, d.out
}
