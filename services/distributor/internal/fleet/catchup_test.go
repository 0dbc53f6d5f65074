// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// asOf is the content of a source at a second.
func asOf(second int64, content string) catalog.Resolution {
	r := good(content)
	r.FreshAt = time.Unix(second, 0)
	return r
}

// TestAReplicaCatchesUp has an agent come from a replica that knew of an edit and of a commit
// before this one.
func TestAReplicaCatchesUp(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	v.Resolved(t.Context(), app, asOf(1, "one"), nil)
	extra := catalog.Source{Repository: "demo", Path: "extra"}
	l.add(catalog.Changes{Services: []*catalog.Service{service("extra", "one", extra)}})
	l.snapshots = map[catalog.Source]catalog.Resolution{app: asOf(2, "two"), extra: asOf(2, "extra")}

	before, _ := v.Plan("one")
	if err := v.CatchUp(t.Context(), "one", before.Version); err != nil {
		t.Fatal(err)
	}
	if now, _ := v.Plan("one"); now != before {
		t.Error("looked into the store for a version that is the current one")
	}
	if err := v.CatchUp(t.Context(), "one", "of another replica"); err != nil {
		t.Fatal(err)
	}
	after, _ := v.Plan("one")
	if len(after.Entries) != 2 || after.Entries[0].Bundles[0].Commit != "two" || after.Entries[1].Bundles[0].Commit != "extra" {
		t.Errorf("got %+v, want the new service, and the later commit", after.Entries)
	}
}

// TestWithoutTheStoreNobodyGoesBack has the store fail: who has a version that was seen here is
// served from memory, who has none too, and who may have a later one is asked to wait.
func TestWithoutTheStoreNobodyGoesBack(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	var versions []string
	for i := range 20 {
		v.Resolved(t.Context(), app, asOf(int64(i), fmt.Sprint(i)), nil)
		p, _ := v.Plan("one")
		versions = append(versions, p.Version)
	}
	if err := v.CatchUp(t.Context(), "one", "older than this process"); err != nil {
		t.Fatal(err)
	}
	l.down = fmt.Errorf("read changes: %w", catalog.ErrUnavailable)
	for _, version := range append(versions, "", "older than this process") {
		if err := v.CatchUp(t.Context(), "one", version); err != nil {
			t.Errorf("%q: got %v, want the plan from memory", version, err)
		}
	}
	if err := v.CatchUp(t.Context(), "one", "of another replica"); !errors.Is(err, catalog.ErrUnavailable) {
		t.Errorf("got %v, want unavailable: the plan there is may be older", err)
	}
}

// TestOlderAnswersChangeNothing has answers come in the wrong order.
func TestOlderAnswersChangeNothing(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]struct {
		next catalog.Resolution
		want string
	}{
		"later":                    {asOf(6, "next"), "next"},
		"earlier":                  {asOf(4, "next"), "known"},
		"at the same time":         {asOf(5, "next"), "next"},
		"of a time nobody knows":   {good("next"), "next"},
		"earlier, the same":        {asOf(4, "known"), "known"},
		"a problem beside the old": {catalog.Resolution{Snapshot: good("known").Snapshot, Problem: &catalog.Problem{}, FreshAt: time.Unix(5, 0)}, "known"},
	} {
		v, _, _ := newView(t)
		v.Resolved(t.Context(), app, asOf(5, "known"), nil)
		v.Resolved(t.Context(), app, step.next, nil)
		if got := v.Resolution(app).Snapshot.Commit; got != step.want {
			t.Errorf("%s: got %s, want %s", name, got, step.want)
		}
		v, _, _ = newView(t)
		v.Resolved(t.Context(), app, asOf(5, "known"), nil)
		v.Stored(t.Context(), app, step.next)
		if got := v.Resolution(app).Snapshot.Commit; got == "next" && !step.next.FreshAt.After(time.Unix(5, 0)) {
			t.Errorf("%s: took %s from the store, which is not newer", name, got)
		}
	}
}

// TestADownloadLooksOnceMore has an agent ask for a bundle of a plan that another replica gave it.
func TestADownloadLooksOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l, _ := newView(t)
		downloads := fleet.Downloads{View: v}
		v.Resolved(t.Context(), app, asOf(1, "one"), nil)
		wanted := digest.FromBytes([]byte("two"))
		if _, ok := downloads.Bundle("one", wanted); ok {
			t.Error("found what nobody resolved")
		}
		l.snapshots = map[catalog.Source]catalog.Resolution{app: asOf(2, "two")}
		if _, ok := downloads.Bundle("one", wanted); ok {
			t.Error("looked twice within a second: guesses would reach the store")
		}
		time.Sleep(time.Second)
		if _, ok := downloads.Bundle("two", wanted); ok {
			t.Error("another cluster got the bundle")
		}
		if _, ok := downloads.Bundle("one", wanted); !ok {
			t.Error("the bundle of a plan that is in the store is not found")
		}
		time.Sleep(time.Second) // the pause after the last look ends
	})
}

// slow is a store that takes its time, and counts.
type slow struct {
	*log
	mu              sync.Mutex // over log
	looks, at, most atomic.Int64
	takes           time.Duration
}

func (s *slow) Changes(ctx context.Context, since int64) (catalog.Changes, error) {
	s.looks.Add(1)
	s.most.Store(max(s.most.Load(), s.at.Add(1)))
	defer s.at.Add(-1)
	s.mu.Lock()
	changes, err := s.log.Changes(ctx, since)
	s.mu.Unlock()
	time.Sleep(s.takes)
	return changes, err
}

func (s *slow) add(c catalog.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.add(c)
}

func newSlowView(t *testing.T, takes time.Duration) (*fleet.View, *slow) {
	t.Helper()
	l := &log{}
	l.add(catalog.Changes{Clusters: []*catalog.Cluster{cluster("one")}})
	s := &slow{log: l, takes: takes}
	v := fleet.New(fleet.Params{
		Store: s, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return v, s
}

// TestLooksAreShared has ten thousand callers miss something at once: each sees what was written
// before it asked, and the store is asked a handful of times, by one at a time.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, store := newSlowView(t, 20*time.Millisecond)
		loaded := store.looks.Load()
		var asking sync.WaitGroup
		ask := func(want int64) {
			asking.Go(func() {
				if v.Look(t.Context()); v.Catalog.Revision() < want {
					t.Errorf("got revision %d, want %d, which was there when the caller asked", v.Catalog.Revision(), want)
				}
			})
		}
		for range 5_000 {
			ask(1)
		}
		time.Sleep(10 * time.Millisecond) // in the middle of the first look
		store.add(catalog.Changes{Clusters: []*catalog.Cluster{cluster("two")}})
		for range 5_000 {
			ask(2)
		}
		asking.Wait()
		if got := store.looks.Load() - loaded; got > 3 {
			t.Errorf("got %d looks, want the callers to share two or three", got)
		}
		if store.most.Load() != 1 {
			t.Errorf("got %d looks at once, want one at a time", store.most.Load())
		}
		time.Sleep(time.Second)
	})
}

// TestMadeUpVersionsAreShared has one agent name versions that no replica ever had, many at once.
func TestMadeUpVersionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, store := newSlowView(t, 10*time.Millisecond)
		loaded := store.looks.Load()
		var asking sync.WaitGroup
		for i := range 1000 {
			asking.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond)
				if err := v.CatchUp(t.Context(), "one", fmt.Sprint("made up ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		if got := store.looks.Load() - loaded; got > 25 {
			t.Errorf("got %d looks within a second, want some twenty", got)
		}
		time.Sleep(time.Second)
	})
}

// TestAHangingStoreHoldsNobodyUp has the store take for ever.
func TestAHangingStoreHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, store := newSlowView(t, 0)
		store.takes = time.Hour
		began := time.Now()
		err := v.CatchUp(t.Context(), "one", "of another replica")
		if waited := time.Since(began); !errors.Is(err, catalog.ErrUnavailable) || waited > 3*time.Second {
			t.Errorf("got %v after %s, want unavailable within a few seconds", err, waited)
		}
		time.Sleep(2 * time.Hour)
	})
}
