// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// by remembers that persons have changed all services, one after the other.
func (y *yard) by(persons ...string) {
	for _, person := range persons {
		y.revision++
		for _, service := range y.services {
			y.authors = append(y.authors, catalog.Author{ObjectUID: service.UID, Subject: "user:" + person, Revision: y.revision, At: y.now})
		}
	}
}

// wantAuthors compares the authors of a rollout. Each of them is refused as the one who approves.
func (y *yard) wantAuthors(when string, number int64, want ...string) {
	y.t.Helper()
	run := y.record.Run
	if y.record.Number != number || run.Current() != "canary" || !slices.Equal(run.Candidate.Authors, want) {
		y.t.Fatalf("%s: got rollout %d in wave %q by %q, want %d in the canary by %q", when, y.record.Number, run.Current(), run.Candidate.Authors, number, want)
	}
	for _, person := range want {
		_, err := y.record.Follow(rollout.Event{Kind: rollout.Approve, Wave: "canary", Person: person, At: y.now})
		if _, ok := errors.AsType[*rollout.AuthorError](err); !ok {
			y.t.Errorf("%s: %s approves: got %v, want a refusal", when, person, err)
		}
	}
}

// TestSecAuthorsOfARollout has people edit services, and asks whose edits each rollout brings.
func TestSecAuthorsOfARollout(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.policy.Spec.Strategy.Waves[0].Approval.NotByAuthor = true
	namespaced := func(name string, persons ...string) {
		y.by(persons...)
		y.edit(namespace(name))
		y.rounds(3)
	}
	complete := func() {
		t.Helper()
		number := y.record.Number
		y.approve()
		for range 6 {
			y.rounds(1)
			if y.record.Number == number && y.record.Run.State == rollout.Completed {
				return
			}
		}
		t.Fatalf("rollout %d is %s, want it to complete", y.record.Number, y.record.Run.State)
	}
	namespaced("one", "ada", "bob")
	y.wantAuthors("two edits before the rollout began", 1, "ada", "bob")
	y.by("eve") // queued
	y.edit(namespace("two"))
	complete()
	y.rounds(3)
	y.wantAuthors("an edit in the middle of a rollout", 2, "eve")
	complete()

	y.contents[app] = content(app, "c2")
	y.rounds(3)
	y.wantAuthors("a commit", 3)
	complete()

	y.bad = "bad"
	namespaced("bad", "ada")
	y.rounds(4)
	if y.record.Run.State != rollout.RolledBack {
		t.Fatalf("got a rollout that is %s, want one that went back", y.record.Run.State)
	}
	namespaced("good", "bob")
	y.wantAuthors("a corrected edit", 5, "ada", "bob")
	y.tell(rollout.Event{Kind: rollout.Command, Verb: rollout.Abort})
	y.contents[app] = content(app, "c3")
	y.rounds(3)
	y.wantAuthors("a commit while an edit is refused", 6)
	complete()
	y.tell(rollout.Event{Kind: rollout.Command, Verb: rollout.Retry})
	y.rounds(3)
	y.wantAuthors("edits that are tried again", 7, "ada", "bob")
	complete()
	namespaced("last", "carl")
	y.wantAuthors("an edit after all were brought", 8, "carl")
}

// TestSecAuthorsOfPinnedServices edits a service while it is pinned. Other rollouts complete meanwhile.
func TestSecAuthorsOfPinnedServices(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	a := y.admitted["a"]
	a.Pin = &catalog.Pin{}
	y.admitted["a"] = a
	y.by("ada")
	pinned := *y.services[0]
	namespace("one")(&pinned.Spec)
	y.services[0] = &pinned
	y.contents[app] = content(app, "c2")
	y.rounds(3)
	y.approve()
	y.tell(rollout.Event{Kind: rollout.Command, Verb: rollout.SkipWave})
	y.rounds(4)
	if y.record.Run.State != rollout.Completed || len(y.record.Run.Candidate.Authors) != 0 {
		t.Fatalf("got a rollout that is %s, by %q", y.record.Run.State, y.record.Run.Candidate.Authors)
	}
	a.Pin = nil
	y.admitted["a"] = a
	y.rounds(3)
	if got := y.record.Run.Candidate.Authors; y.record.Number != 2 || !slices.Equal(got, []string{"ada"}) {
		t.Errorf("got rollout %d by %q, want 2 by ada", y.record.Number, got)
	}
}

// TestSecAuthorsOfLateServices edits a template whose services are derived only after another rollout completed.
func TestSecAuthorsOfLateServices(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.isBehind = true
	y.by("ada")
	y.contents[app] = content(app, "c2")
	y.rounds(3)
	y.approve()
	y.rounds(4)
	if y.record.Run.State != rollout.Completed {
		t.Fatalf("got a rollout that is %s", y.record.Run.State)
	}
	y.isBehind = false
	y.edit(namespace("one"))
	y.rounds(3)
	if got := y.record.Run.Candidate.Authors; y.record.Number != 2 || !slices.Equal(got, []string{"ada"}) {
		t.Errorf("got rollout %d by %q, want 2 by ada", y.record.Number, got)
	}
}

// TestSecAuthorsOfSets edits a set that all services use. The author is named until a rollout has brought the edit.
func TestSecAuthorsOfSets(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.policy.Spec.Strategy.Waves[0].Approval.NotByAuthor = true
	y.badConfig = "bad"
	edit := func(person, config string) {
		y.revision++
		y.authors = append(y.authors, catalog.Author{ObjectUID: "uid-set", Subject: "user:" + person, Revision: y.revision, At: y.now})
		y.configure(config)
		y.rounds(3)
	}
	edit("ada", "k1")
	y.wantAuthors("an edit of a set", 1, "ada")
	y.approve()
	y.rounds(6)
	y.contents[app] = content(app, "c2")
	y.rounds(3)
	y.wantAuthors("a commit after that", 2)
	y.approve()
	y.rounds(6)
	edit("bob", "bad")
	y.rounds(6)
	if y.record.Run.State != rollout.RolledBack {
		t.Fatalf("got a rollout that is %s, want one that went back", y.record.Run.State)
	}
	edit("eve", "k2")
	y.wantAuthors("an edit after one that went back", 4, "bob", "eve")
}
