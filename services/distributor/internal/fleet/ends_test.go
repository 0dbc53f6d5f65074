// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// pausedFor returns a service that is paused for a time from now.
func pausedFor(name, cluster string, d time.Duration) *catalog.Service {
	s := service(name, cluster, app)
	s.Spec.Options = &syncpolicy.Options{Paused: true, PausedUntil: catalog.Now().Add(d)}
	return s
}

// isPlannedPaused reports whether a service is paused in the plan of its cluster.
func isPlannedPaused(t *testing.T, v *fleet.View, cluster, name string) bool {
	t.Helper()
	p, ok := v.Plan(cluster)
	if !ok {
		t.Fatalf("cluster %s has no plan", cluster)
	}
	entry, ok := p.Entry(name)
	if !ok {
		t.Fatalf("service %s is not in the plan of %s", name, cluster)
	}
	return entry.Apply().Paused
}

// TestPausesEndByThemselves follows pauses to their ends: the plan changes then, not before, and its
// watchers are notified. An edit moves an end. No plan that is in memory is computed again for
// anything else.
func TestPausesEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l, plans := newView(t)
		go func() { _ = (fleet.Ends{View: v}).Run(t.Context()) }()
		put := func(services ...*catalog.Service) {
			t.Helper()
			l.add(catalog.Changes{Services: services})
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		v.Resolved(t.Context(), app, good("one"), nil)
		put(pausedFor("app", "one", 2*time.Hour), pausedFor("other", "two", 3*time.Hour))
		want := func(what string, one, two bool) {
			t.Helper()
			synctest.Wait()
			if a, b := isPlannedPaused(t, v, "one", "app"), isPlannedPaused(t, v, "two", "other"); a != one || b != two {
				t.Errorf("%s: got paused %v and %v, want %v and %v", what, a, b, one, two)
			}
		}
		want("at first", true, true)
		before, _ := v.Plan("one")
		w := plans.WatchAll()
		defer w.Close()
		took := func() []string {
			synctest.Wait()
			keys, _ := w.Take()
			return keys
		}

		<-time.After(2*time.Hour - time.Nanosecond)
		want("just before the first end", true, true)
		if keys := took(); len(keys) != 0 {
			t.Errorf("got changes of %v before the first end, want none", keys)
		}
		<-time.After(time.Microsecond)
		want("at the first end", false, true)
		if keys := took(); len(keys) != 1 || keys[0] != "one" {
			t.Errorf("got changes of %v at the first end, want of one", keys)
		}
		if after, _ := v.Plan("one"); after.Version == before.Version {
			t.Error("the plan without the pause has the version of the plan with it")
		}

		put(pausedFor("other", "two", 5*time.Hour))
		_ = took()
		<-time.After(2 * time.Hour)
		want("after the end that an edit has moved", false, true)
		put(pausedFor("other", "two", time.Minute))
		<-time.After(2 * time.Minute)
		want("after an end that an edit brought nearer", false, false)

		put(pausedFor("app", "one", -time.Second))
		want("with an end that has passed", false, false)
		forever := service("app", "one", app)
		forever.Spec.Options = &syncpolicy.Options{Paused: true}
		put(forever)
		<-time.After(200 * 24 * time.Hour)
		want("a pause without an end", true, false)
	})
}

// TestEndsOutliveARestart loads the same store twice: one replica is up when the pause ends, one
// starts before the end, and one after it. Their plans have the same version at any time.
func TestEndsOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l, _ := newView(t)
		go func() { _ = (fleet.Ends{View: v}).Run(t.Context()) }()
		l.add(catalog.Changes{Services: []*catalog.Service{pausedFor("app", "one", time.Hour)}})
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := func() *fleet.View {
			replica := replicaOf(t, l)
			go func() { _ = (fleet.Ends{View: replica}).Run(t.Context()) }()
			return replica
		}
		same := func(what string, isPaused bool, replicas ...*fleet.View) {
			t.Helper()
			synctest.Wait()
			first, _ := replicas[0].Plan("one")
			for i, replica := range replicas {
				if got := isPlannedPaused(t, replica, "one", "app"); got != isPaused {
					t.Errorf("%s: replica %d: got paused %v, want %v", what, i, got, isPaused)
				}
				if p, _ := replica.Plan("one"); p.Version != first.Version {
					t.Errorf("%s: replica %d has another plan than the first", what, i)
				}
			}
		}
		early := start()
		same("before the end", true, v, early)
		<-time.After(time.Hour + time.Microsecond)
		same("after the end", false, v, early, start())
	})
}

// TestEndedPausesAreShown compares the status of a service with its plan, and its spec with the one
// that was written.
func TestEndedPausesAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l, _ := newView(t)
		go func() { _ = (fleet.Ends{View: v}).Run(t.Context()) }()
		v.Resolved(t.Context(), app, good("one"), nil)
		l.add(catalog.Changes{Services: []*catalog.Service{pausedFor("app", "one", time.Hour)}})
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []fleet.ServiceStatus{{Phase: catalog.PhasePaused}, {Phase: catalog.PhasePending, HasPauseEnded: true}} {
			synctest.Wait()
			record, _ := v.Records.Get(catalog.Key{Kind: catalog.KindService, Name: "app"})
			if got := record.Service; got.Phase != want.Phase || got.HasPauseEnded != want.HasPauseEnded {
				t.Errorf("got %s, ended %v, want %s, %v", got.Phase, got.HasPauseEnded, want.Phase, want.HasPauseEnded)
			}
			if s, _ := record.Object.(*catalog.Service); !s.Spec.Wanted().Paused {
				t.Error("the spec has lost the pause that a person wrote")
			}
			<-time.After(2 * time.Hour)
		}
	})
}

// TestIgnoreRulesEndByThemselves has two rules of a service end one after the other. The plan has what is left of
// them, without their ends, and another digest each time, so that the agent applies the fields again.
func TestIgnoreRulesEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l, _ := newView(t)
		go func() { _ = (fleet.Ends{View: v}).Run(t.Context()) }()
		v.Resolved(t.Context(), app, good("one"), nil)
		rule := func(pointer string, until time.Time) syncpolicy.IgnoreRule {
			return syncpolicy.IgnoreRule{Pointers: []string{pointer}, Until: until}
		}
		now := catalog.Now()
		s := service("app", "one", app)
		s.Spec.Options = &syncpolicy.Options{Policy: syncpolicy.Policy{Ignore: []syncpolicy.IgnoreRule{
			rule("/a", now.Add(2*time.Hour)), rule("/b", time.Time{}), rule("/c", now.Add(4*time.Hour)),
		}}}
		l.add(catalog.Changes{Services: []*catalog.Service{s}})
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		digests := map[string]bool{}
		for _, want := range [][]syncpolicy.IgnoreRule{
			{rule("/a", time.Time{}), rule("/b", time.Time{}), rule("/c", time.Time{})}, {rule("/b", time.Time{}), rule("/c", time.Time{})}, {rule("/b", time.Time{})},
		} {
			synctest.Wait()
			p, _ := v.Plan("one")
			entry, _ := p.Entry("app")
			if got := entry.Apply().Policy.Ignore; !reflect.DeepEqual(got, want) {
				t.Errorf("got the rules %v after %s, want %v", got, catalog.Now().Sub(now), want)
			}
			digests[entry.SpecDigest] = true
			<-time.After(2*time.Hour + time.Microsecond)
		}
		if len(digests) != 3 {
			t.Errorf("got %d digests of three sets of rules", len(digests))
		}
		if kept, _ := v.Catalog.Service("app"); len(kept.Spec.Wanted().Policy.Ignore) != 3 {
			t.Errorf("got %v, want the rules that a person wrote", kept.Spec.Wanted().Policy.Ignore)
		}
	})
}

// TestPinsEndByThemselves pins a service to its first content for a time, while its source has other content.
// The plan has the pinned content until the end, and the source's after it, also of a replica that starts
// then. An end that is moved, and a release by a person, count at once.
func TestPinsEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l, plans := newView(t)
		go func() { _ = (fleet.Ends{View: v}).Run(t.Context()) }()
		v.Resolved(t.Context(), app, good("new"), nil)
		pin := func(until time.Time) {
			t.Helper()
			a := catalog.Admission{ServiceUID: "uid-app", Service: "app"}
			if !until.Equal(time.Unix(0, 0)) {
				a.Pin = &catalog.Pin{Revision: 1, Until: until, Content: []catalog.HeldSource{{Source: app.Normal(), Snapshot: *good("old").Snapshot}}}
			}
			l.add(catalog.Changes{FleetChanges: catalog.FleetChanges{Admissions: []catalog.Admission{a}}})
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := func(what, content string) {
			t.Helper()
			synctest.Wait()
			replica := replicaOf(t, l)
			replica.Resolved(t.Context(), app, good("new"), nil)
			for who, view := range map[string]*fleet.View{"the replica": v, "one that starts": replica} {
				p, _ := view.Plan("one")
				if _, ok := p.Bundle(good(content).Snapshot.Digest); !ok {
					t.Errorf("%s: the plan of %s does not have the %s content", what, who, content)
				}
				record, _ := view.Records.Get(catalog.Key{Kind: catalog.KindService, Name: "app"})
				if hold := record.Service.Hold; (hold != nil) != (content == "old") {
					t.Errorf("%s: %s shows the hold %v beside the %s content", what, who, hold, content)
				}
			}
		}
		want("without a pin", "new")
		pin(catalog.Now().Add(2 * time.Hour))
		want("pinned", "old")
		w := plans.WatchAll()
		defer w.Close()
		<-time.After(2*time.Hour - time.Nanosecond)
		want("just before the end", "old")
		if keys, _ := w.Take(); len(keys) != 0 {
			t.Errorf("got changes of %v before the end, want none", keys)
		}
		<-time.After(time.Microsecond)
		want("at the end", "new")
		if keys, _ := w.Take(); len(keys) != 1 || keys[0] != "one" {
			t.Errorf("got changes of %v at the end, want of one", keys)
		}

		pin(catalog.Now().Add(time.Hour))
		pin(catalog.Now().Add(3 * time.Hour))
		<-time.After(2 * time.Hour)
		want("after the end that another pin has moved", "old")
		pin(time.Unix(0, 0))
		want("released", "new")
		pin(time.Time{})
		<-time.After(200 * 24 * time.Hour)
		want("a pin without an end", "old")
	})
}
