// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

func submoduleOf(parent mirror.Definition, name string) mirror.Definition {
	def := definition(name)
	def.Parent, def.ParentUID = parent.Name, parent.UID
	return def
}

// TestSubmodulesLiveWithTheirParents has one replica own a repository and its submodules, whatever
// their names, because a bundle needs them all.
func TestSubmodulesLiveWithTheirParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		var defs []mirror.Definition
		for i := range 8 {
			parent := definition(fmt.Sprint("demo-", i))
			defs = append(defs, parent, submoduleOf(parent, parent.Name+".a"), submoduleOf(parent, parent.Name+".b"))
		}
		a, runA := w.member(t, "a", nil, defs...)
		b, runB := w.member(t, "b", nil, defs...)
		defer runA()()
		defer runB()()
		time.Sleep(5 * time.Minute)
		owned := map[*mirroring.Set]int{}
		for _, def := range defs {
			of := def.Name
			if def.Parent != "" {
				of = def.Parent
			}
			for _, set := range []*mirroring.Set{a, b} {
				mine, parents := get(t, set, def.Name).Epoch() != 0, get(t, set, of).Epoch() != 0
				if mine != parents {
					t.Errorf("%s: got owned here %v, want %v as its parent", def.Name, mine, parents)
				}
				if mine {
					owned[set]++
				}
			}
		}
		if owned[a] == 0 || owned[b] == 0 {
			t.Errorf("got %d and %d repositories, want some at each replica", owned[a], owned[b])
		}
	})
}

// TestOrphansGo leaves submodules out whose parent is gone, or was made again.
func TestOrphansGo(t *testing.T) {
	t.Parallel()
	w := newWorld()
	parent := definition("demo")
	child := submoduleOf(parent, "demo.a")
	set, _ := w.member(t, "a", nil, parent, child)
	if get(t, set, "demo.a"); len(set.Orphans()) != 0 {
		t.Errorf("got orphans %v, want none", set.Orphans())
	}
	remade := parent
	remade.UID = "uid-2"
	for _, defs := range [][]mirror.Definition{{child}, {remade, child}} {
		set.Apply(defs)
		if _, err := set.Get("demo.a"); !errors.Is(err, mirror.ErrUnknownRepository) || len(set.Orphans()) != 1 {
			t.Errorf("got %v and orphans %v, want the child left out", err, set.Orphans())
		}
	}
}

// TestBorrow copies a mirror to a replica that need not have one.
func TestBorrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.followers = 0
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		a, runA := w.member(t, "a", nil, definition("demo"))
		b, runB := w.member(t, "b", nil, definition("demo"))
		defer runA()()
		defer runB()()
		time.Sleep(time.Minute)
		owner, other := get(t, a, "demo"), get(t, b, "demo")
		if owner.Epoch() == 0 {
			owner, other = other, owner
		}
		if _, err := other.Content(); err == nil {
			t.Fatal("there is a copy already: this test shows nothing")
		}
		if err := other.Borrow(t.Context()); err != nil {
			t.Fatal(err)
		}
		mine, _ := owner.Content()
		if got, err := other.Content(); err != nil || got.Fingerprint() != mine.Fingerprint() {
			t.Errorf("got %v, %v, want what the owner has", got, err)
		}
		if got := w.upstream.clones; got != 1 {
			t.Errorf("got %d clones, want the owner's alone", got)
		}
	})
}

// TestSubmodulesCountWhereTheyAreFollowed has mirrors that all are too old: the gauges count a
// submodule at the replica that follows its parent, and at no other.
func TestSubmodulesCountWhereTheyAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.followers = 1
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamUnreachable, Message: "no answer"})
		parent := definition("demo")
		defs := []mirror.Definition{parent}
		for i := range 10 {
			defs = append(defs, submoduleOf(parent, fmt.Sprint("demo.", i)))
		}
		loaded := map[string]mirror.Content{}
		for _, def := range defs {
			loaded[def.UID] = mirror.Content{FreshAt: time.Now().Add(-24 * time.Hour), Epoch: 1}
		}
		var readers []*sdkmetric.ManualReader
		var runs []func() func()
		for _, url := range rendezvous.Order(parent.UID, []string{"http://a", "http://b", "http://c"}) {
			reader := sdkmetric.NewManualReader()
			w.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
			_, run := w.member(t, strings.TrimPrefix(url, "http://"), loaded, defs...)
			readers, runs = append(readers, reader), append(runs, run)
		}
		for _, run := range runs {
			defer run()()
		}
		time.Sleep(time.Minute)
		for place, want := range []int64{0, int64(len(defs)), 0} {
			if got := overdueCopies(t, readers[place]); got != want {
				t.Errorf("replica %d in the parent's order: got %d copies overdue, want %d", place, got, want)
			}
		}
	})
}

// overdueCopies returns how many mirrors that a replica follows its gauge counts as overdue.
func overdueCopies(t *testing.T, reader *sdkmetric.ManualReader) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != "leat.mirror.overdue" || !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				if role, _ := point.Attributes.Value("leat.mirror.role"); role.AsString() == "follower" {
					return point.Value
				}
			}
		}
	}
	t.Fatal("the gauge leat.mirror.overdue shows nothing")
	return 0
}
