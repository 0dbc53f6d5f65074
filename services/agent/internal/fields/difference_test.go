// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
)

// spellDifferences returns one line for each difference.
func spellDifferences(all []fields.Difference) []string {
	var lines []string
	for _, d := range all {
		line := fmt.Sprintf("%s: %s -> %s", d.Path, d.Before, d.After)
		for _, owner := range d.Owners {
			line += fmt.Sprintf(", %s %s", owner.Name, owner.Operation)
			if owner.Time.IsZero() {
				line += " at no time"
			}
		}
		if d.IsTaken {
			line += ", taken"
		}
		if d.Rule != "" {
			line += ", by " + d.Rule
		}
		lines = append(lines, line)
	}
	return lines
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	const before = "spec: {replicas: 1, rules: [x], items: [{name: a, image: '1', size: 1}, {name: b, image: '1'}]}\ndata: {a: '1', b: '2'}\nmetadata: {finalizers: [f]}"
	for name, test := range map[string]struct {
		change func(t *testing.T, s *server)
		after  string
		want   []string
	}{
		"nothing":         {after: before},
		"a field":         {after: strings.Replace(before, "replicas: 1", "replicas: 2", 1), want: []string{".spec.replicas: 1 -> 2, leat Apply"}},
		"a field removed": {after: strings.Replace(before, "a: '1', b", "b", 1), want: []string{".data.a: 1 -> , leat Apply"}},
		"an empty text":   {after: strings.Replace(before, "a: '1', b", "a: '', b", 1), want: []string{`.data.a: 1 -> "", leat Apply`}},
		"a field added":   {after: strings.Replace(before, "data: {", "data: {c: '3', ", 1), want: []string{".data.c:  -> 3"}},
		"an item": {
			after: strings.Replace(before, "image: '1', size", "image: '2', size", 1), want: []string{`.spec.items[name="a"].image: 1 -> 2, leat Apply`},
		},
		"an item removed": {
			after: strings.Replace(before, ", {name: b, image: '1'}", "", 1), want: []string{`.spec.items[name="b"]: {"image":"1","name":"b"} -> , leat Apply`},
		},
		"an item added": {
			after: strings.Replace(before, "[{name: a,", "[{name: c}, {name: a,", 1), want: []string{`.spec.items[name="c"]:  -> {"name":"c"}`},
		},
		"a list of values": {
			after: strings.Replace(before, "finalizers: [f]", "finalizers: [f, g]", 1), want: []string{`.metadata.finalizers: ["f"] -> ["f","g"], leat Apply`},
		},
		"an atomic list": {after: strings.Replace(before, "rules: [x]", "rules: [z]", 1), want: []string{`.spec.rules: ["x"] -> ["z"], leat Apply`}},
		"a field of another manager": {
			change: func(t *testing.T, s *server) { s.set(t, "kubectl-edit", int64(9), "spec", "replicas") },
			after:  before, want: []string{".spec.replicas: 9 -> 1, kubectl-edit Update, taken"},
		},
		"a field that another manager keeps, too": {
			change: func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {replicas: 1}") },
			after:  strings.Replace(before, "image: '1', size", "image: '2', size", 1), want: []string{`.spec.items[name="a"].image: 1 -> 2, leat Apply`},
		},
	} {
		s := newServer(t)
		s.mustApply(t, "leat", before)
		if test.change != nil {
			test.change(t, s)
		}
		live := s.live(t).DeepCopy()
		s.mustApply(t, "leat", test.after)
		after := s.live(t)
		found, omitted := fields.OwnershipOf(live, after).Differences(live, after)
		for i := range found {
			for j := range found[i].Owners {
				if found[i].Owners[j].Time.IsZero() {
					t.Errorf("%s: %v has no time", name, found[i].Owners[j])
				}
			}
		}
		assertEqual(t, name, test.want, spellDifferences(found))
		assertEqual(t, name, 0, omitted)
	}
}

// TestDifferencesAreBounded has more fields, longer values and more owners than anybody wants to read.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	data, other := map[string]any{}, map[string]any{}
	for i := range 500 {
		data[fmt.Sprintf("%03d%s", i, strings.Repeat("k", 2000))], other[fmt.Sprintf("%03d%s", i, strings.Repeat("k", 2000))] = strings.Repeat("ä", 1000), "x"
	}
	before, after := &unstructured.Unstructured{Object: map[string]any{"data": data}}, &unstructured.Unstructured{Object: map[string]any{"data": other}}
	var entries []any
	for i := range 50 {
		entries = append(entries, map[string]any{
			"manager": strings.Repeat("m", 1000) + fmt.Sprint(i), "operation": "Update", "time": "yesterday", "fieldsV1": map[string]any{"f:data": map[string]any{}},
		})
	}
	before.Object["metadata"] = map[string]any{"managedFields": entries}
	found, omitted := fields.OwnershipOf(before, after).Differences(before, after)
	if len(found) != fields.MaxDifferences || omitted != 500-fields.MaxDifferences {
		t.Fatalf("got %d and %d more", len(found), omitted)
	}
	for _, d := range found {
		if len(d.Path) > fields.MaxValue || len(d.Before) > fields.MaxValue || len(d.Owners) != 10 || len(d.Owners[0].Name) > fields.MaxText || !d.Owners[0].Time.IsZero() {
			t.Fatalf("got %d bytes of a path, %d of a value, and %v", len(d.Path), len(d.Before), d.Owners)
		}
	}
}

func TestIgnoredDifferencesNameTheirRule(t *testing.T) {
	t.Parallel()
	const manifest = "spec: {replicas: 1, paused: true, items: [{name: a, image: '1', size: 1}]}\ndata: {a: '1'}"
	s := newServer(t)
	s.mustApply(t, "leat", manifest)
	s.set(t, "hpa", int64(9), "spec", "replicas")
	s.set(t, "x", false, "spec", "paused")
	s.mustApply(t, "tuner-1", "spec: {items: [{name: a, image: '2', size: 3}]}")
	live, wanted := s.live(t), thing(t, manifest)
	wanted.SetAnnotations(map[string]string{fields.IgnoreAnnotation: "/spec/items/[name=a]/image"})
	rules, err := fields.Compile([]syncpolicy.IgnoreRule{{Pointers: []string{"/data", "/spec/replicas"}}, {Managers: []string{"nobody", "tuner-*"}}})
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := rules.Of(wanted)
	if err != nil {
		t.Fatal(err)
	}
	found, omitted := fields.OwnershipOf(live, live).Ignored(ignored, wanted, live, wanted)
	assertEqual(t, "ignored", []string{
		`.spec.items[name="a"].image: 2 -> 1, tuner-1 Apply, by /spec/items/[name=a]/image`,
		`.spec.items[name="a"].size: 3 -> 1, tuner-1 Apply, by manager tuner-*`,
		".spec.replicas: 9 -> 1, hpa Update, by /spec/replicas",
	}, spellDifferences(found))
	assertEqual(t, "omitted", 0, omitted)
}
