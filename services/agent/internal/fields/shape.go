// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Shape returns the part of wanted to apply, so that applying it leaves everything ignored as it is
// in live, the object in the cluster with its managedFields. Fields that others own are left out.
// Fields that only Leat owns, or no manager, keep their live values, even if the manifest does not
// name them any more. Without live there is nothing to keep, and the result is wanted. Neither
// object is changed.
//
// How the API server merges decides what has to be said about an ignored field:
//
//   - A field that Leat owns and the manifest omits is removed. So Leat has to repeat the live
//     value of each ignored field that only Leat owns.
//   - A field that Leat does not name, or owns together with others, stays as the others have set
//     it. So the manifest has to omit it; naming it would take it over, or conflict.
//   - A part of an atomic map or list cannot be omitted: the whole is applied, with live values in
//     the place of its ignored parts.
func (i Ignored) Shape(wanted, live *unstructured.Unstructured) *unstructured.Unstructured {
	if live == nil || i.Empty() {
		return wanted
	}
	ours, theirs := owners(live)
	shaped := wanted.DeepCopy()
	for _, p := range i.pointers {
		place{wanted: shaped.Object, live: live.Object, ours: ours, theirs: theirs}.shape(p)
	}
	for _, e := range entriesOf(live) {
		if !e.isOurs() && i.Manager(e.manager()) && e.apiVersion() == wanted.GetAPIVersion() {
			omit(shaped.Object, ours, e.owned(), nil)
		}
	}
	restoreLabels(shaped, wanted)
	return shaped
}

// restoreLabels puts back Leat's own labels, without which no object is applied.
func restoreLabels(shaped, wanted *unstructured.Unstructured) {
	labels := shaped.GetLabels()
	for name, value := range wanted.GetLabels() {
		if !strings.HasPrefix(name, "leat.dev/") {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = value
		shaped.SetLabels(labels)
	}
}

// shape returns the value to apply at this place, so that the fields that p names from here on stay
// as they are. Nil leaves the place out. It changes at.wanted.
func (at place) shape(p pointer) any {
	if len(p) == 0 {
		return at.keep()
	}
	switch live := at.live.(type) {
	case map[string]any:
		return at.shapeFields(live, p)
	case []any:
		if !at.isPart && isKeyed(at.ours, at.theirs) {
			return at.shapeKeyed(live, p)
		}
		return at.shapeItems(live, p)
	case nil:
		return at.shapeNew(p)
	default:
		return at.wanted
	}
}

// keep returns the value to apply so that the whole place stays as it is. A part of something that
// is owned as a whole keeps its live value, since it is applied in any case. So does a value
// without an owner.
func (at place) keep() any {
	if at.isPart || at.ours == nil && at.theirs == nil && at.wanted != nil {
		return runtime.DeepCopyJSONValue(at.live)
	}
	return sole(at.live, at.ours, at.theirs)
}

// shapeNew is for a value that does not exist in the cluster. It is applied without the ignored
// fields, but new items of lists are applied as the manifest has them: an ignored field of an item
// may be the one that makes it valid.
func (at place) shapeNew(p pointer) any {
	switch wanted := at.wanted.(type) {
	case map[string]any:
		return at.shapeFields(nil, p)
	case []any:
		if len(p) == 1 {
			wanted = dropNew(wanted, nil, nil, p[0])
		}
		if len(wanted) == 0 {
			return nil
		}
		return wanted
	default:
		return at.wanted
	}
}

// isOwnedAsWhole reports whether no manager can own only a part of the place. The API server lists
// no fields of an atomic map, regardless of its owner.
func (at place) isOwnedAsWhole() bool {
	return at.isPart || isLeaf(at.ours) && len(at.theirs) == 0 || isLeaf(at.theirs) && len(at.ours) == 0
}

// shapeFields is for maps. Without live it is for one that the manifest adds.
func (at place) shapeFields(live map[string]any, p pointer) any {
	wanted, ok := at.wanted.(map[string]any)
	if !ok && at.wanted != nil {
		return at.wanted
	}
	before := len(wanted)
	for _, name := range p[0].names(wanted, live) {
		field := at.field(name)
		field.isPart = at.isOwnedAsWhole()
		value := field.shape(p[1:])
		switch {
		case value == nil:
			delete(wanted, name)
		case wanted == nil:
			wanted = map[string]any{name: value}
		default:
			wanted[name] = value
		}
	}
	if len(wanted) == 0 && (before > 0 || at.wanted == nil) {
		return nil // an empty map is applied only if the manifest has one
	}
	return wanted
}

// shapeItems is for lists that are owned as a whole: named items keep their live value in the
// manifest's order.
func (at place) shapeItems(live []any, p pointer) any {
	wanted, ok := at.wanted.([]any)
	if !ok {
		return at.wanted
	}
	var items []any
	for i, item := range wanted {
		if p[0].picks(i, item) {
			item = place{wanted: item, live: counterpart(p[0], live, i), isPart: true}.shape(p[1:])
		}
		if item != nil {
			items = append(items, item)
		}
	}
	return items
}

// counterpart returns the live item for the manifest's item at that position: the selected one, or
// that at the same position.
func counterpart(s step, live []any, position int) any {
	for i, item := range live {
		if s.selector != nil && s.picks(i, item) {
			return item
		}
	}
	if s.selector == nil && position < len(live) {
		return live[position]
	}
	return nil
}

// shapeKeyed is for lists whose items have owners of their own. It goes over the live items, since
// these are the ones to keep: a manifest's item that has no live counterpart is new, and only a
// pointer that ends here leaves it out. Positions in a pointer count in the manifest, for items
// that it has, and in the cluster for others.
func (at place) shapeKeyed(live []any, p pointer) any {
	wanted, ok := at.wanted.([]any)
	if !ok && at.wanted != nil {
		return at.wanted
	}
	known, next := keys(at.ours, at.theirs), 0
	if len(known) == 0 {
		return at.shapeSet(p)
	}
	if len(p) == 1 {
		wanted = dropNew(wanted, live, known, p[0])
	}
	for i, item := range live {
		name := nameOf(item, known)
		if name == "" {
			continue
		}
		position, here := find(wanted, known[name]), at.below(name, nil, item)
		if position >= 0 {
			i, here.wanted = position, wanted[position]
		}
		if !p[0].picks(i, item) || position < 0 && len(p) > 1 {
			next = max(next, position+1)
			continue // not named, or a part of an item that left the manifest
		}
		wanted, next = put(wanted, position, next, here.shapeItem(p[1:], known[name]))
	}
	if len(wanted) == 0 {
		return nil
	}
	return wanted
}

// put sets, inserts or removes an item, and returns where the next one would be inserted: inserted
// items keep their live order.
func put(list []any, position, next int, item any) ([]any, int) {
	switch {
	case position < 0 && item == nil:
		return list, next
	case position < 0:
		return slices.Insert(list, next, item), next + 1
	case item == nil:
		return slices.Delete(list, position, position+1), position
	default:
		list[position] = item
		return list, position + 1
	}
}

// dropNew removes the named items that do not exist in the cluster: they are left to others, too.
func dropNew(wanted, live []any, known map[string]map[string]any, s step) []any {
	isLive := map[int]bool{}
	for _, item := range live {
		if name := nameOf(item, known); name != "" {
			isLive[find(wanted, known[name])] = true
		}
	}
	var kept []any
	for i, item := range wanted {
		if isLive[i] || !s.picks(i, item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// shapeSet is for lists whose items are values. They have no parts and no names, so that only a
// star names them, all at once.
func (at place) shapeSet(p pointer) any {
	if len(p) > 1 || !p[0].isAny {
		return at.wanted
	}
	return at.keep()
}

// shapeItem is shape for an item of a keyed list. An item of which anything is left has its key.
func (at place) shapeItem(p pointer, key map[string]any) any {
	if len(p) == 0 {
		return soleItem(at.live, key, at.ours, at.theirs)
	}
	fields, ok := at.shape(p).(map[string]any)
	if !ok {
		return at.wanted
	}
	maps.Copy(fields, key)
	return fields
}
