// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which services come to a new content, and when: it moves the members of a
// rollout in waves, stops when they fail, and takes them back.
//
// # Promises
//
// A [Run] is what its events made of it. Nothing else is looked at: no clock, no store, no
// randomness. The same events give the same decisions on every replica and after every restart.
//
//   - Nobody is admitted while that would make more members unavailable than the strategy allows. Members
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

// DecisionKind is what the caller of a run does.
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
	run   *Run
	byUID map[string]int
	out   []Decision
}

func (d *decider) index() {
	d.byUID = make(map[string]int, len(d.run.Members))
	for i := range d.run.Members {
		d.byUID[d.run.Members[i].UID] = i
	}
}

// member returns a member of the run, or nil.
func (d *decider) member(uid string) *Progress {
	if i, ok := d.byUID[uid]; ok {
		return &d.run.Members[i]
	}
	return nil
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

// Advance is Next for several events, one after the other.
func (r Run) Advance(events ...Event) (Run, []Decision) {
	r = r.clone()
	d := &decider{run: &r}
	d.index()
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
	return r, d.out
}
