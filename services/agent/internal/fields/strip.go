// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Strip returns o without the fields that pointers name, and without them in Leat's own entry:
// changes of the rest count as changes of the object. Without pointers it returns o and costs
// nothing. Otherwise the result shares everything else with o, which is not changed. Stripped items
// of lists leave nil behind, so that the others keep their positions.
func (i Ignored) Strip(o *unstructured.Unstructured) *unstructured.Unstructured {
	if len(i.pointers) == 0 {
		return o
	}
	position, own := ownEntry(o)
	at, isStripped := ownedValue{value: o.Object, owned: own.owned()}, false
	for _, p := range i.pointers {
		var ok bool
		at, ok = at.without(p)
		isStripped = isStripped || ok
	}
	if !isStripped {
		return o
	}
	fields, _ := at.value.(map[string]any)
	if position >= 0 {
		fields = withEntry(fields, position, own, at.owned)
	}
	return &unstructured.Unstructured{Object: fields}
}

// withEntry returns a copy of an object's fields in which the entry at that position owns something
// else. If that is nothing the entry goes, as the API server does it.
func withEntry(fields map[string]any, position int, own entry, owned tree) map[string]any {
	metadata, _ := fields["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	fields, metadata, list = maps.Clone(fields), maps.Clone(metadata), slices.Clone(list)
	if owned == nil {
		list = slices.Delete(list, position, position+1)
	} else {
		own = maps.Clone(own)
		own["fieldsV1"] = owned
		list[position] = map[string]any(own)
	}
	metadata["managedFields"], fields["metadata"] = list, metadata
	return fields
}

// ownedValue is a value and the fields of it that Leat owns.
type ownedValue struct {
	value any
	owned tree
}

// without returns the value without the fields that p names, and reports whether there were any. It
// copies only the maps and lists on the way to them.
func (at ownedValue) without(p pointer) (ownedValue, bool) {
	switch value := at.value.(type) {
	case map[string]any:
		return at.withoutFields(value, p)
	case []any:
		return at.withoutItems(value, p)
	default:
		return at, false
	}
}

// withoutFields removes a field together with its node in the tree, or only parts of both.
func (at ownedValue) withoutFields(fields map[string]any, p pointer) (ownedValue, bool) {
	isFound := false
	for _, name := range p[0].names(fields) {
		value, isThere := fields[name]
		if !isThere {
			continue
		}
		key := fieldPrefix + name
		left, ok := ownedValue{}, true
		if len(p) > 1 {
			left, ok = ownedValue{value, child(at.owned, key)}.without(p[1:])
		}
		if !ok {
			continue
		}
		if !isFound {
			fields, isFound = maps.Clone(fields), true
		}
		delete(fields, name)
		if left.value != nil {
			fields[name] = left.value
		}
		at.owned = replace(at.owned, key, left.owned)
	}
	return ownedValue{fields, at.owned}, isFound
}

// withoutItems is withoutFields for a list. Items of a set have a node under their value.
func (at ownedValue) withoutItems(items []any, p pointer) (ownedValue, bool) {
	isFound, known := false, keys(at.owned)
	for i, item := range items {
		if item == nil || !p[0].picks(i, item) {
			continue
		}
		name := nameOf(item, known)
		left, ok := ownedValue{}, true
		if len(p) > 1 {
			left, ok = ownedValue{item, child(at.owned, name)}.without(p[1:])
		}
		if !ok {
			continue
		}
		if !isFound {
			items, isFound = slices.Clone(items), true
		}
		items[i] = left.value
		at.owned = replace(at.owned, name, left.owned)
		if len(p) == 1 {
			at.owned = replace(at.owned, nameOfValue(at.owned, item), nil)
		}
	}
	return ownedValue{items, at.owned}, isFound
}
