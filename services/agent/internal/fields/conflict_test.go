// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
)

func TestWithout(t *testing.T) {
	t.Parallel()
	const all = "spec: {replicas: 1, rules: [x], selector: {a: '1'}, items: [{name: a, image: '1', env: [{name: A, value: '1'}]}, {name: b, image: '1'}]}\n" +
		"data: {a: '1', a.b: '2', 'a[x]': '3'}\nmetadata: {finalizers: [f, g], labels: {x/y.z: '1'}}"
	for name, want := range map[string]string{
		".spec.replicas": "spec: {rules: [x], selector: {a: '1'}, items: [{name: a, image: '1', env: [{name: A, value: '1'}]}, {name: b, image: '1'}]}\n" +
			"data: {a: '1', a.b: '2', 'a[x]': '3'}\nmetadata: {finalizers: [f, g], labels: {x/y.z: '1'}}",
		".spec":                         "data: {a: '1', a.b: '2', 'a[x]': '3'}\nmetadata: {finalizers: [f, g], labels: {x/y.z: '1'}}",
		".spec.x":                       all,
		"":                              all,
		"nonsense":                      all,
		".data.a":                       "DATA {a.b: '2', 'a[x]': '3'}",
		".data.a.b":                     "DATA {a: '1', 'a[x]': '3'}",
		".data.a[x]":                    "DATA {a: '1', a.b: '2'}",
		".metadata.labels.x/y.z":        "META {finalizers: [f, g]}",
		".metadata.finalizers[=\"f\"]":  "META {finalizers: [g], labels: {x/y.z: '1'}}",
		".spec.items[name=\"a\"].image": "ITEMS [{name: a, env: [{name: A, value: '1'}]}, {name: b, image: '1'}]",
		".spec.items[name=\"a\"].env[name=\"A\"].value": "ITEMS [{name: a, image: '1', env: [{name: A}]}, {name: b, image: '1'}]",
		".spec.items[name=\"a\"]":                       "ITEMS [{name: b, image: '1'}]",
		".spec.items[name=\"z\"].image":                 all,
		".spec.items[name=\"a]\"].image":                all,
	} {
		o := thing(t, all)
		assertEqual(t, name, expand(t, all, want).Object, fields.Without(o, name).Object)
		assertEqual(t, name+" leaves the original", thing(t, all).Object, o.Object)
	}
}

// expand makes the whole of all with one part replaced.
func expand(t *testing.T, all, want string) *unstructured.Unstructured {
	t.Helper()
	o := thing(t, all)
	for prefix, path := range map[string][]string{"DATA ": {"data"}, "META ": {"metadata"}, "ITEMS ": {"spec", "items"}} {
		if len(want) <= len(prefix) || want[:len(prefix)] != prefix {
			continue
		}
		part := parsed(t, "{apiVersion: a, kind: b, part: "+want[len(prefix):]+"}").Object["part"]
		if fields, ok := part.(map[string]any); ok && prefix == "META " {
			fields["name"] = "x"
		}
		if err := unstructured.SetNestedField(o.Object, part, path...); err != nil {
			t.Fatal(err)
		}
		return o
	}
	return thing(t, want)
}

// TestYieldedIsAppliedAtOnce lets any manifest meet any owners: the rest of it without the fields
// that the API server names in conflicts is applied without any, and takes nothing away from
// others.
func TestYieldedIsAppliedAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		if err := s.apply(t, "x", drawThing(t), true); err != nil {
			t.Fatalf("create: %v", err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			act(t, s)
		}
		next := drawThing(t)
		err := s.apply(t, "leat", next, false)
		if err == nil {
			return
		}
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) {
			t.Fatalf("apply: %v", err)
		}
		var names []string
		for _, cause := range status.Status().Details.Causes {
			names = append(names, cause.Field)
		}
		if err := s.apply(t, "leat", fields.Without(next, names...), false); err != nil {
			t.Fatalf("apply without %v: %v", names, err)
		}
	})
}

func TestIgnoredField(t *testing.T) {
	t.Parallel()
	o := thing(t, "spec: {replicas: 1, selector: {a: '1'}, items: [{name: a, image: '1'}, {name: b, image: '1'}]}")
	for name, pointers := range map[string][2]string{
		".spec.replicas":                {"/spec/replicas", "/spec/paused"},
		".spec.selector":                {"/spec", "/spec/selector/a"},
		".spec.selector.a":              {"/spec/selector/*", "/spec/selector/b"},
		".spec.items[name=\"b\"].image": {"/spec/items/[name=b]/image", "/spec/items/[name=a]/image"},
		".spec.items[name=\"a\"].image": {"/spec/items/0", "/spec/items/1"},
	} {
		for i, pointer := range pointers {
			ignored := ignore(t, o, syncpolicy.IgnoreRule{Pointers: []string{pointer}})
			if got, want := ignored.Field(o, name), i == 0; got != want {
				t.Errorf("field %s, pointer %s: got %v, want %v", name, pointer, got, want)
			}
		}
	}
}

func TestLegible(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		".spec.replicas":                        {"spec.replicas", "spec.replicas"},
		".spec.items[name=\"a\"].image":         {"spec.items[name=a].image", "spec.items[…].image"},
		".spec.ports[port=80,protocol=\"TCP\"]": {"spec.ports[port=80,protocol=TCP]", "spec.ports[…]"},
		".metadata.finalizers[=\"a.b/c\"]":      {"metadata.finalizers[=a.b/c]", "metadata.finalizers[…]"},
		".data.a[b":                             {"data.a[b", "data.a[b"},
		".spec.items[name=\"a]b\"].image":       {"spec.items[name=a]b].image", "spec.items[…].image"},
	} {
		for i, masked := range []bool{false, true} {
			if got := fields.Legible(name, masked); got != want[i] {
				t.Errorf("%s: got %s, want %s", name, got, want[i])
			}
		}
	}
}
