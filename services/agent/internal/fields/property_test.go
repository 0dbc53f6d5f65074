// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// pick draws a value or, as often, leaves it out.
func pick(t *rapid.T, fields map[string]any, name string, values ...any) {
	if rapid.Bool().Draw(t, "has "+name) {
		fields[name] = rapid.SampledFrom(values).Draw(t, name)
	}
}

func drawItem(t *rapid.T, name string) map[string]any {
	item := map[string]any{"name": name}
	pick(t, item, "image", "1", "2", "3")
	pick(t, item, "size", int64(1), int64(2))
	var env []any
	for _, name := range []string{"A", "B"} {
		if rapid.Bool().Draw(t, "has "+name) {
			env = append(env, map[string]any{"name": name, "value": rapid.SampledFrom([]string{"1", "2"}).Draw(t, name)})
		}
	}
	if env != nil {
		item["env"] = env
	}
	return item
}

// drawThing draws a manifest.
func drawThing(t *rapid.T) *unstructured.Unstructured {
	o := thing(t, "{}")
	spec := map[string]any{}
	pick(t, spec, "replicas", int64(1), int64(2), int64(3))
	pick(t, spec, "paused", true, false)
	pick(t, spec, "selector", map[string]any{"a": "1"}, map[string]any{"a": "1", "b": "1"}, map[string]any{"b": "2"})
	pick(t, spec, "rules", []any{"x"}, []any{"x", "y"})
	pick(t, spec, "limits", map[string]any{}, map[string]any{"cpu": "1"}, map[string]any{"cpu": "2", "memory": "1"})
	var items []any
	for _, name := range rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"b", "a"}}).Draw(t, "items") {
		items = append(items, drawItem(t, name))
	}
	if items != nil {
		spec["items"] = items
	}
	if len(spec) > 0 {
		o.Object["spec"] = spec
	}
	pick(t, o.Object, "data", map[string]any{"a": "1"}, map[string]any{"a": "2", "b": "1"}, map[string]any{"b": "2"})
	metadata := o.Object["metadata"].(map[string]any)
	pick(t, metadata, "finalizers", []any{"f"}, []any{"g"}, []any{"f", "g"})
	pick(t, metadata, "labels", map[string]any{"l": "1"}, map[string]any{"l": "2", "m": "1"})
	return o
}

// act lets a manager change the object.
func act(t *rapid.T, s *server) {
	manager := rapid.SampledFrom([]string{"leat", "x", "y"}).Draw(t, "manager")
	if manager != "leat" && rapid.Bool().Draw(t, "update") {
		s.edit(t, manager, func(o *unstructured.Unstructured) {
			for name, value := range drawThing(t).Object {
				if name == "spec" || name == "data" {
					o.Object[name] = value
				}
			}
		})
		return
	}
	if err := s.apply(t, manager, drawThing(t), true); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// at returns the part of an object that a path of names leads to. Items of lists are found by their
// names.
func at(value any, path ...string) any {
	for _, name := range path {
		switch container := value.(type) {
		case map[string]any:
			value = container[name]
		case []any:
			value = nil
			for _, item := range container {
				if fields, ok := item.(map[string]any); ok && fields["name"] == name {
					value = fields
				}
			}
		default:
			return nil
		}
	}
	return value
}

// ignorable are pointers, and for each the path to what it names, and to the items that it lies in.
var ignorable = map[string]struct {
	path  []string
	items int // how long the path of the innermost item is
}{
	"/spec/replicas":                    {path: []string{"spec", "replicas"}},
	"/spec/selector":                    {path: []string{"spec", "selector"}},
	"/spec/rules":                       {path: []string{"spec", "rules"}},
	"/spec/limits":                      {path: []string{"spec", "limits"}},
	"/spec/limits/cpu":                  {path: []string{"spec", "limits", "cpu"}},
	"/spec/items":                       {path: []string{"spec", "items"}},
	"/spec/items/[name=a]":              {path: []string{"spec", "items", "a"}},
	"/spec/items/[name=a]/image":        {path: []string{"spec", "items", "a", "image"}, items: 3},
	"/spec/items/[name=b]/env":          {path: []string{"spec", "items", "b", "env"}, items: 3},
	"/spec/items/*/env/[name=A]/value":  {path: []string{"spec", "items", "a", "env", "A", "value"}, items: 5},
	"/spec/items/[name=b]/env/[name=B]": {path: []string{"spec", "items", "b", "env", "B"}, items: 3},
	"/data":                             {path: []string{"data"}},
	"/data/a":                           {path: []string{"data", "a"}},
	"/metadata/finalizers":              {path: []string{"metadata", "finalizers"}},
	"/metadata/labels/l":                {path: []string{"metadata", "labels", "l"}},
}

// TestShapedNeverChangesIgnored lets managers work on an object in any order, and shows that
// applying the result of Shape for any manifest leaves ignored fields as they were, and that a
// second time nothing changes at all.
func TestShapedNeverChangesIgnored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		if err := s.apply(t, "leat", drawThing(t), true); err != nil {
			t.Fatalf("create: %v", err)
		}
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			act(t, s)
		}
		pointer := rapid.SampledFrom(sortedKeys(ignorable)).Draw(t, "pointer")
		named := ignorable[pointer]
		next, before := drawThing(t), s.live(t)
		ignored := ignore(t, next, syncpolicy.IgnoreRule{Pointers: []string{pointer}})
		if err := s.apply(t, "leat", ignored.Shape(next, before), true); err != nil {
			t.Fatalf("apply shaped: %v", err)
		}
		after := s.live(t)
		if missing(next, named.path, named.items) || missing(before, named.path, named.items) {
			return // the item that it is in goes, or what it is in is new
		}
		if diff := cmp.Diff(at(before.Object, named.path...), at(after.Object, named.path...)); diff != "" {
			t.Fatalf("%s changed (-before +after):\n%s", pointer, diff)
		}
		if err := s.apply(t, "leat", ignored.Shape(next, after), true); err != nil {
			t.Fatalf("apply shaped again: %v", err)
		}
		if diff := cmp.Diff(after.Object["spec"], s.live(t).Object["spec"]); diff != "" {
			t.Fatalf("the second apply changes (-before +after):\n%s", diff)
		}
	})
}

func missing(o *unstructured.Unstructured, path []string, length int) bool {
	return at(o.Object, path[:length]...) == nil
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
