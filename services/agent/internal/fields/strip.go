// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Strip returns o without the fields that pointers name, and without them in what Leat owns of it: what is left is what a
// change of it counts for. It costs nothing where no field is named; otherwise the result shares all else with o, which is
// not changed. Items of lists leave nil behind.
func (i Ignored) Strip(o *unstructured.Unstructured) *unstructured.Unstructured {
	if len(i.pointers) == 0 {
		return o
	}
	at, stripped := part{value: o.Object}, false
	position, own := ownEntry(o)
	at.owned = own.owned()
	for _, p := range i.pointers {
		var ok bool
		at, ok = at.without(p)
		stripped = stripped || ok
	}
	if !stripped {
		return o
	}
	fields, _ := at.value.(map[string]any)
	if position >= 0 {
		fields = withEntry(fields, position, own, at.owned)
	}
	return &unstructured.Unstructured{Object: fields}
}

// ownEntry finds the entry that holds what Leat applied; -1 where there is none.
func ownEntry(o *unstructured.Unstructured) (int, entry) {
	metadata, _ := o.Object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	for i, item := range list {
		if e, ok := item.(map[string]any); ok && entry(e).ours() {
			return i, e
		}
	}
	return -1, nil
}

// withEntry returns a copy of an object's fields in which that entry owns something else.
func withEntry(fields map[string]any, position int, own entry, owned tree) map[string]any {
	metadata, _ := fields["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	fields, metadata, list, own = maps.Clone(fields), maps.Clone(metadata), slices.Clone(list), maps.Clone(own)
	own["fieldsV1"] = owned
	list[position] = map[string]any(own)
	metadata["managedFields"], fields["metadata"] = list, metadata
	return fields
}

// part is a value and what Leat owns of it.
type part struct {
	value any
	owned tree
}

// without returns the part without what p names, and whether that was anything. A tree that loses its last child is nil:
// an empty one would own everything.
func (at part) without(p pointer) (part, bool) {
	switch value := at.value.(type) {
	case map[string]any:
		return at.withoutFields(value, p)
	case []any:
		return at.withoutItems(value, p)
	default:
		return at, false
	}
}

func (at part) withoutFields(fields map[string]any, p pointer) (part, bool) {
	found := false
	for _, name := range p[0].names(fields) {
		value, there := fields[name]
		if !there {
			continue
		}
		key := fieldPrefix + name
		left, ok := part{}, true
		if len(p) > 1 {
			left, ok = part{value, child(at.owned, key)}.without(p[1:])
		}
		if !ok {
			continue
		}
		if !found {
			fields, found = maps.Clone(fields), true
		}
		delete(fields, name)
		if left.value != nil {
			fields[name] = left.value
		}
		at.owned = replace(at.owned, key, left.owned)
	}
	return part{fields, at.owned}, found
}

func (at part) withoutItems(items []any, p pointer) (part, bool) {
	found, known := false, keys(at.owned)
	for i, item := range items {
		if item == nil || !p[0].picks(i, item) {
			continue
		}
		name := nameOf(item, known)
		left, ok := part{}, true
		if len(p) > 1 {
			left, ok = part{item, child(at.owned, name)}.without(p[1:])
		}
		if !ok {
			continue
		}
		if !found {
			items, found = slices.Clone(items), true
		}
		items[i] = left.value
		at.owned = replace(at.owned, name, left.owned)
		if len(p) == 1 {
			at.owned = replace(at.owned, valueIn(at.owned, item), nil)
		}
	}
	return part{items, at.owned}, found
}

// replace returns a copy of the tree with another child in the place of that one.
func replace(t tree, key string, with tree) tree {
	if _, there := t[key]; !there {
		return t
	}
	t = maps.Clone(t)
	delete(t, key)
	if with != nil {
		t[key] = with
	}
	if len(t) == 0 {
		return nil
	}
	return t
}
