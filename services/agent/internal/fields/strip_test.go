// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
)

func assertEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestStrip lets others change an object that Leat has applied, and checks whether that counts.
func TestStrip(t *testing.T) {
	t.Parallel()
	const first = "spec: {replicas: 1, selector: {a: '1', b: '1'}, items: [{name: a, image: '1', env: [{name: A, value: '1'}]}, {name: b, image: '1'}]}\n" +
		"data: {a: '1', b: '1'}\nmetadata: {finalizers: [f, g], labels: {l: '1'}}"
	for name, test := range map[string]struct {
		pointers []string
		change   func(t *testing.T, s *server)
		counts   bool
	}{
		"named":         {[]string{"/spec/replicas"}, func(t *testing.T, s *server) { s.set(t, "x", int64(9), "spec", "replicas") }, false},
		"not named":     {[]string{"/spec/paused"}, func(t *testing.T, s *server) { s.set(t, "x", int64(9), "spec", "replicas") }, true},
		"taken":         {[]string{"/spec/replicas"}, func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {replicas: 9}") }, false},
		"last of a map": {[]string{"/metadata/labels/l"}, func(t *testing.T, s *server) { s.set(t, "x", "9", "metadata", "labels", "l") }, false},
		"removed":       {[]string{"/data/a"}, func(t *testing.T, s *server) { s.set(t, "x", map[string]any{"b": "1"}, "data") }, false},
		"map removed": {[]string{"/data"}, func(t *testing.T, s *server) {
			s.edit(t, "x", func(o *unstructured.Unstructured) { delete(o.Object, "data") })
		}, false},
		"map emptied, of which a part is named": {
			[]string{"/data/a"}, func(t *testing.T, s *server) {
				s.edit(t, "x", func(o *unstructured.Unstructured) { delete(o.Object, "data") })
			}, true,
		},
		"star":       {[]string{"/data/*"}, func(t *testing.T, s *server) { s.set(t, "x", "9", "data", "a") }, false},
		"of an item": {[]string{"/spec/items/[name=a]/image"}, func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: a, image: '9'}]}") }, false},
		"of another": {[]string{"/spec/items/[name=b]/image"}, func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: a, image: '9'}]}") }, true},
		"item in item": {[]string{"/spec/items/*/env/[name=A]"}, func(t *testing.T, s *server) {
			s.mustApply(t, "x", "spec: {items: [{name: a, env: [{name: A, value: '9'}]}]}")
		}, false},
		"new item":      {[]string{"/spec/items/[name=c]"}, func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: c, image: '9'}]}") }, false},
		"atomic":        {[]string{"/spec/selector/a"}, func(t *testing.T, s *server) { s.set(t, "leat", "9", "spec", "selector", "a") }, true}, // Leat lost all of it
		"set":           {[]string{"/metadata/finalizers"}, func(t *testing.T, s *server) { s.set(t, "x", []any{"f"}, "metadata", "finalizers") }, false},
		"set, by items": {[]string{"/metadata/finalizers/*"}, func(t *testing.T, s *server) { s.set(t, "x", []any{"f"}, "metadata", "finalizers") }, false},
		"another set":   {[]string{"/data"}, func(t *testing.T, s *server) { s.set(t, "x", []any{"f"}, "metadata", "finalizers") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.mustApply(t, "leat", first)
			ignored := ignore(t, thing(t, first), syncpolicy.IgnoreRule{Pointers: test.pointers})
			sum := func() fingerprint.Sum { return fingerprint.Live(ignored.Strip(s.live(t)), fields.Manager) }
			before, whole := sum(), s.live(t)
			test.change(t, s)
			if got := sum() != before; got != test.counts {
				t.Errorf("change counts: got %v, want %v", got, test.counts)
			}
			copied := whole.DeepCopy()
			ignored.Strip(whole)
			assertEqual(t, "stripped object", copied.Object, whole.Object)
		})
	}
}

// TestStripOfEverythingThatLeatOwns lets others remove the only field that Leat has applied. Leat's
// entry goes with it, which must not count either.
func TestStripOfEverythingThatLeatOwns(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.mustApply(t, "leat", "spec: {replicas: 1}")
	ignored := ignore(t, s.live(t), syncpolicy.IgnoreRule{Pointers: []string{"/spec/replicas"}})
	before := fingerprint.Live(ignored.Strip(s.live(t)), fields.Manager)
	s.set(t, "x", map[string]any{}, "spec")
	if after := fingerprint.Live(ignored.Strip(s.live(t)), fields.Manager); after != before {
		t.Error("the removal of an ignored field counts")
	}
}

// TestStripCostsNothing shows that objects without rules are not touched.
func TestStripCostsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.mustApply(t, "leat", "spec: {replicas: 1}")
	live := s.live(t)
	rules, err := fields.Compile([]syncpolicy.IgnoreRule{{Objects: syncpolicy.Selector{Kind: "Other"}, Pointers: []string{"/spec/replicas"}}})
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := rules.Of(live)
	if err != nil {
		t.Fatal(err)
	}
	if ignored.Strip(live) != live {
		t.Error("the object was copied")
	}
}

// TestStrippedChangesCountForNothing lets others change only what a pointer names, in any way, and
// shows that the fingerprint stays.
func TestStrippedChangesCountForNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		if err := s.apply(t, "leat", drawThing(t), true); err != nil {
			t.Fatalf("create: %v", err)
		}
		pointer := rapid.SampledFrom([]string{"/spec/replicas", "/spec/selector", "/spec/items/[name=a]/image", "/data/a", "/metadata/labels/l"}).Draw(t, "pointer")
		path := ignorable[pointer].path
		ignored := ignore(t, s.live(t), syncpolicy.IgnoreRule{Pointers: []string{pointer}})
		before := fingerprint.Live(ignored.Strip(s.live(t)), fields.Manager)
		other := drawThing(t)
		s.edit(t, "x", func(o *unstructured.Unstructured) { graft(o.Object, other.Object, path) })
		if after := fingerprint.Live(ignored.Strip(s.live(t)), fields.Manager); after != before {
			t.Errorf("a change of %s counts", pointer)
		}
	})
}

// graft takes a part over from another object, where there is a place for it.
func graft(into, from map[string]any, path []string) {
	place, ok := at(into, path[:len(path)-1]...).(map[string]any)
	if !ok {
		return
	}
	last := path[len(path)-1]
	if value := at(from, path...); value != nil {
		place[last] = value
	} else {
		delete(place, last)
	}
}
