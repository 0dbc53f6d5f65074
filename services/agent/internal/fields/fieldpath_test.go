// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/leatdev/leat/services/agent/internal/fields"
)

// settledByFieldpath is [fields.Settled] on fieldpath.Set: a second oracle, and the subject of
// BenchmarkFieldpath. It reports false if it cannot read the owned fields.
func settledByFieldpath(wanted, live *unstructured.Unstructured) bool {
	owned, apiVersion, ok := ownedByLeat(live)
	if !ok || apiVersion != wanted.GetAPIVersion() {
		return false
	}
	set, err := readTree(owned)
	if err != nil {
		return false
	}
	metadata, _ := wanted.Object["metadata"].(map[string]any)
	return set.fields(wanted.Object, live.Object, "apiVersion", "kind", "metadata") &&
		set.below(fieldpath.FieldNameElement("metadata")).fields(metadata, live.Object["metadata"], "name", "namespace")
}

// ownedByLeat returns the fields that Leat has applied, and the API version of the entry.
func ownedByLeat(live *unstructured.Unstructured) (owned map[string]any, apiVersion string, ok bool) {
	metadata, _ := live.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, each := range entries {
		e, _ := each.(map[string]any)
		if e["manager"] == fields.Manager && e["operation"] == "Apply" && e["subresource"] == nil {
			owned, ok = e["fieldsV1"].(map[string]any)
			apiVersion, _ = e["apiVersion"].(string)
			return owned, apiVersion, ok
		}
	}
	return nil, "", false
}

// ownedSet is a node of a set: the fields below it, and whether it is owned itself.
type ownedSet struct {
	set      *fieldpath.Set // nil: nothing below is owned
	isMember bool
}

// readTree reads a tree in the notation of FieldsV1, as client-go has decoded it.
func readTree(tree map[string]any) (ownedSet, error) {
	set := &fieldpath.Set{}
	for name, child := range tree {
		if name == "." {
			continue
		}
		element, err := fieldpath.DeserializePathElement(name)
		if err != nil {
			return ownedSet{}, err
		}
		below, _ := child.(map[string]any)
		if _, isMember := below["."]; isMember || len(below) == 0 {
			set.Members.Insert(element)
		}
		if len(below) > 0 {
			part, err := readTree(below)
			if err != nil {
				return ownedSet{}, err
			}
			*set.Children.Descend(element) = *part.set
		}
	}
	return ownedSet{set: set}, nil
}

func (o ownedSet) below(element fieldpath.PathElement) ownedSet {
	if o.set == nil {
		return ownedSet{}
	}
	part, _ := o.set.Children.Get(element)
	return ownedSet{part, o.set.Members.Has(element)}
}

// elements returns the elements that are owned directly below the node, each once.
func (o ownedSet) elements() []fieldpath.PathElement {
	all := slices.Collect(o.set.Members.All())
	for each := range o.set.Children.All() {
		if !o.set.Members.Has(each) {
			all = append(all, each)
		}
	}
	return all
}

func (o ownedSet) settled(wanted, live any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		if o.set != nil {
			return o.fields(wanted, live)
		}
	case []any:
		if o.set != nil {
			return o.items(wanted, live)
		}
	}
	return (o.set != nil || o.isMember) && (isSameScalar(wanted, live) || equality.Semantic.DeepEqual(wanted, live))
}

func (o ownedSet) fields(wanted map[string]any, live any, unowned ...string) bool {
	present, ok := live.(map[string]any)
	if !ok {
		return false
	}
	for name, each := range wanted {
		if !slices.Contains(unowned, name) && !o.below(fieldpath.FieldNameElement(name)).settled(each, present[name]) {
			return false
		}
	}
	if o.set == nil {
		return true
	}
	for _, element := range o.elements() {
		if element.FieldName != nil {
			if _, isWanted := wanted[*element.FieldName]; !isWanted {
				return false
			}
		}
	}
	return true
}

func (o ownedSet) items(wanted []any, live any) bool {
	list, ok := live.([]any)
	if !ok {
		return false
	}
	elements := o.elements()
	count, last := 0, -1
	for _, item := range wanted {
		best, most := -1, 0
		for i, element := range elements {
			if n := countOfKey(element, item); n > most {
				best, most = i, n
			}
		}
		if best >= 0 {
			position, most := -1, 0
			for i, each := range list {
				if n := countOfKey(elements[best], each); n > most {
					position, most = i, n
				}
			}
			if position <= last || !o.below(elements[best]).settled(item, list[position]) {
				return false
			}
			count, last = count+1, position
			continue
		}
		if slices.ContainsFunc(elements, func(e fieldpath.PathElement) bool {
			return e.Value != nil && value.Equals(*e.Value, value.NewValueInterface(item))
		}) {
			count++
		}
	}
	return count == len(wanted) && count == len(elements)
}

// countOfKey returns how many fields of an element's key the item has, or 0 if one of them differs.
func countOfKey(element fieldpath.PathElement, item any) int {
	present, ok := item.(map[string]any)
	if !ok || element.Key == nil {
		return 0
	}
	n := 0
	for _, field := range *element.Key {
		got, isThere := present[field.Name]
		switch {
		case !isThere:
		case value.Equals(field.Value, value.NewValueInterface(got)):
			n++
		default:
			return 0
		}
	}
	return n
}

func isSameScalar(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return value.Equals(value.NewValueInterface(a), value.NewValueInterface(b))
}

// TestSettledAgreesWithFieldpath shows that Settled returns the same on maps and on fieldpath.Set.
func TestSettledAgreesWithFieldpath(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		last := drawThing(t)
		if err := s.apply(t, "leat", last, true); err != nil {
			t.Fatalf("create: %v", err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			act(t, s)
		}
		live := s.live(t)
		for _, wanted := range []*unstructured.Unstructured{last, drawThing(t)} {
			if got, want := fields.Settled(wanted, live), settledByFieldpath(wanted, live); got != want {
				t.Fatalf("got settled %v, want %v as on fieldpath.Set", got, want)
			}
		}
	})
}

// BenchmarkFieldpath is BenchmarkSettled on fieldpath.Set, and the cost of reading and writing such
// a set. docs/adr/0086 compares both.
func BenchmarkFieldpath(b *testing.B) {
	wanted, live := benchmarked(b)
	owned, _, _ := ownedByLeat(live)
	raw, err := json.Marshal(owned)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("settled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !settledByFieldpath(wanted, live) {
				b.Fatal("what was just applied is not settled")
			}
		}
	})
	b.Run("read a tree", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := readTree(owned); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := (&fieldpath.Set{}).FromJSON(bytes.NewReader(raw)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write JSON", func(b *testing.B) {
		set := &fieldpath.Set{}
		if err := set.FromJSON(strings.NewReader(string(raw))); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := set.ToJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
