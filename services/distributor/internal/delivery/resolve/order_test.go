// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestAMirrorThatLagsIsDoubted has gitcache answer from a mirror that is older than the known
// content, as one does that has just taken over.
func TestAMirrorThatLagsIsDoubted(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	began := time.Unix(1_000, 0)
	w.answersAsOf(began, "two", nil)
	run(t, w, func(t *testing.T, _ *resolve.Loop) {
		wantCommit := func(when, want string) {
			t.Helper()
			if got := w.Resolution(source).Snapshot.Commit; got != want {
				t.Errorf("%s: got %s, want %s", when, got, want)
			}
		}
		answer := func(fresh time.Time, commit string) {
			w.mu.Lock()
			w.answersAsOf(fresh, commit, nil)
			w.mu.Unlock()
			w.asks(t, source)
		}
		answer(began.Add(-time.Minute), "one")
		wantCommit("the next owner's mirror lags behind", "two")
		pass(4 * time.Minute)
		wantCommit("it still does", "two")
		answer(began.Add(time.Minute), "three")
		wantCommit("it fetched", "three")

		answer(began.Add(-time.Hour), "restored")
		wantCommit("clocks went back", "three")
		pass(7 * time.Minute)
		wantCommit("clocks went back a while ago", "restored")
		answer(began.Add(-time.Hour+time.Minute), "next")
		wantCommit("the next commit by that clock", "next")
	})
}

// TestAnAnswerFromBeforeTheEventIsAskedForAgain has an event tell of a commit, and gitcache answer from a mirror that
// has not copied it yet, as a replica does that cannot reach the owner.
func TestAnAnswerFromBeforeTheEventIsAskedForAgain(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	began := time.Unix(1_000, 0)
	w.answersAsOf(began, "one", nil)
	run(t, w, func(t *testing.T, l *resolve.Loop) {
		holds := func(fresh time.Time, commit string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.answersAsOf(fresh, commit, nil)
		}
		check := func(when, want string) {
			t.Helper()
			r := w.Resolution(source)
			if r.Snapshot.Commit != want || r.Problem != nil {
				t.Errorf("%s: got %s with %v, want %s without a problem", when, r.Snapshot.Commit, r.Problem, want)
			}
		}
		tell := func(fresh time.Time) {
			l.Observe(resolve.Event{
				Repository: "demo", ChangedRefs: []string{"refs/heads/main"}, Mirror: &catalog.Mirror{FreshAt: fresh},
			})
		}
		quiet := func(when string) {
			t.Helper()
			before := w.count(source)
			pass(5 * time.Minute)
			if got := w.count(source) - before; got != 0 {
				t.Errorf("%s: got %d more questions, want none", when, got)
			}
		}
		second, third := began.Add(time.Minute), began.Add(2*time.Minute)
		tell(third)
		pass(time.Minute)
		check("the replica lags behind", "one")
		holds(second, "two")
		pass(31 * time.Second)
		check("the replica copied what is not the latest", "two")
		holds(third, "three")
		pass(31 * time.Second)
		check("the replica caught up", "three")
		quiet("the replica caught up")

		behind := began.Add(time.Second)
		holds(behind, "three")
		tell(behind)
		pass(time.Second)
		check("the next owner has a clock that is behind", "three")
		quiet("the next owner has a clock that is behind")

		tell(third)
		l.Observe(resolve.Event{Repository: "demo", AllRefs: true})
		pass(time.Minute)
		quiet("the repository is gone")
	})
}

// TestTheStoreComesFirst has a snapshot stored before it is shown, so that other replicas find it,
// unless the store does not answer.
func TestTheStoreComesFirst(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	run(t, w, func(t *testing.T, l *resolve.Loop) {
		deliver := func(content string) string {
			w.answers(content, nil)
			w.mu.Lock()
			w.order = ""
			w.mu.Unlock()
			if err := l.Sync(t.Context(), []catalog.Source{source}); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.order
		}
		if got := deliver("two"); got != "save show " {
			t.Errorf("got %q, want it stored before it is shown", got)
		}
		w.mu.Lock()
		w.saveErr = errors.New("database is down")
		w.mu.Unlock()
		deliver("three")
		if got := deliver("four"); got != "show save " {
			t.Errorf("got %q, want agents first while the store is down", got)
		}
	})
}

// TestOthersAreLearnedFrom has gitcache be out of reach of this replica only.
func TestOthersAreLearnedFrom(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	w.answers("", &resolve.Failure{Reason: reason.DependencyUnavailable})
	w.stored = map[catalog.Source]catalog.Resolution{
		source: {Snapshot: &catalog.Snapshot{Commit: "of another replica", Digest: digest.FromBytes(nil)}},
	}
	run(t, w, func(t *testing.T, _ *resolve.Loop) {
		if r := w.Resolution(source); r.Snapshot == nil || r.Snapshot.Commit != "of another replica" {
			t.Errorf("got %v, want what another replica stored", r)
		}
	})
}

// TestAStormOfEventsIsCoalesced has a thousand events come at once.
func TestAStormOfEventsIsCoalesced(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	run(t, w, func(t *testing.T, l *resolve.Loop) {
		before := w.count(source)
		for i := range 1000 {
			l.Observe(resolve.Event{Repository: "demo", ChangedRefs: []string{"refs/heads/main"}})
			if i == 500 {
				pass(5 * time.Millisecond) // in the middle of the first question
			}
		}
		pass(time.Second)
		if got := w.count(source) - before; got != 2 {
			t.Errorf("got %d questions for a thousand events, want one, and one for what came while it was asked", got)
		}
	})
}

// TestAMissedEventIsHealed has the upstream change without anybody telling.
func TestAMissedEventIsHealed(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	run(t, w, func(t *testing.T, _ *resolve.Loop) {
		w.answers("two", nil)
		pass(time.Minute)
		if got := w.Resolution(source).Snapshot.Commit; got != "one" {
			t.Errorf("got %s, want nobody to have looked", got)
		}
		pass(75 * time.Minute) // the resync interval, and a quarter
		if got := w.Resolution(source).Snapshot.Commit; got != "two" {
			t.Errorf("got %s within a resync interval, want two", got)
		}
	})
}

// TestStoredContentIsAskedForOnce has a source become wanted whose content was stored before the
// loop began, as for a service that is derived late. It may be old.
func TestStoredContentIsAskedForOnce(t *testing.T) {
	t.Parallel()
	late := branch("demo", "late")
	w := newWorld()
	run(t, w, func(t *testing.T, _ *resolve.Loop) {
		w.Stored(t.Context(), late, catalog.Resolution{Snapshot: &catalog.Snapshot{Commit: "old"}})
		w.mu.Lock()
		w.wanted[late] = true
		w.mu.Unlock()
		for range 3 {
			w.news <- struct{}{}
			pass(time.Second)
		}
		if got := w.Resolution(late).Snapshot.Commit; got != "one" || w.count(late) != 1 {
			t.Errorf("got %s after %d questions, want one after one", got, w.count(late))
		}
	})
}

// TestResyncsAreSpread has many sources resolved again because an event may have been missed.
func TestResyncsAreSpread(t *testing.T) {
	t.Parallel()
	const sources = 1000
	w := newWorld()
	for i := range sources {
		w.wanted[branch("demo", fmt.Sprint(i))] = true
	}
	run(t, w, func(t *testing.T, _ *resolve.Loop) {
		pass(10 * time.Second)
		total := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, asked := range w.asked {
				n += asked
			}
			return n
		}
		if got := total(); got != sources {
			t.Errorf("got %d questions at the start, want all %d at once", got, sources)
		}
		before, most := total(), 0
		for range 75 {
			pass(time.Minute)
			now := total()
			before, most = now, max(most, now-before)
		}
		if most == 0 || most > sources/5 {
			t.Errorf("got %d questions in one minute, want %d spread over a quarter of the interval", most, sources)
		}
		if before < 2*sources {
			t.Errorf("got %d questions within the interval and a quarter, want each source asked for again", before-sources)
		}
	})
}
