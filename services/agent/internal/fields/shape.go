// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Shape returns what of wanted is to be applied, so that applying it leaves everything ignored as it is in live, the
// object in the cluster with its managedFields: what others own is left out, and what only Leat owns, or nobody, keeps its
// live value, also where the manifest names it no more. Without live there is nothing to keep, and wanted is applied.
// Neither object is changed.
func (i Ignored) Shape(wanted, live *unstructured.Unstructured) *unstructured.Unstructured {
	if live == nil || i.Empty() {
		return wanted
	}
	ours, theirs := owners(live)
	shaped := wanted.DeepCopy()
	for _, p := range i.pointers {
		place{wanted: shaped.Object, live: live.Object, ours: ours, theirs: theirs}.leave(p)
	}
	for _, e := range entriesOf(live) {
		if !e.ours() && i.Manager(e.manager()) && e.apiVersion() == wanted.GetAPIVersion() {
			omit(shaped.Object, ours, e.owned(), nil)
		}
	}
	restore(shaped, wanted)
	return shaped
}

// restore puts back what no object is applied without: its labels of Leat's.
func restore(shaped, wanted *unstructured.Unstructured) {
	for name, value := range wanted.GetLabels() {
		if !isLeats(name) {
			continue
		}
		labels := shaped.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = value
		shaped.SetLabels(labels)
	}
}

// place is one place in an object: what is there in the manifest and in the cluster, and who owns it.
type place struct {
	wanted, live any // nil: nothing
	ours, theirs tree
	whole        bool // something around it is owned as a whole
}

// leave returns what to apply at this place, so that what p names from here stays as it is. It changes p.wanted.
func (at place) leave(p pointer) any {
	if len(p) == 0 {
		return at.keep()
	}
	switch live := at.live.(type) {
	case map[string]any:
		return at.leaveFields(live, p)
	case []any:
		if !at.whole && keyed(at.ours, at.theirs) {
			return at.leaveKeyed(live, p)
		}
		return at.leaveItems(live, p)
	case nil:
		return at.leaveNew(p)
	default:
		return at.wanted
	}
}

// leaveNew is for what does not exist. It comes without what is ignored, but new items of lists are made as the manifest says:
// what is ignored of others may be what makes an item valid.
func (at place) leaveNew(p pointer) any {
	switch wanted := at.wanted.(type) {
	case map[string]any:
		return at.leaveFields(nil, p)
	case []any:
		if len(p) == 1 {
			wanted = drop(wanted, nil, nil, p[0])
		}
		if len(wanted) == 0 {
			return nil
		}
		return wanted
	default:
		return at.wanted
	}
}

// keep returns what to apply so that the whole place stays as it is.
func (at place) keep() any {
	switch {
	case at.whole, at.ours == nil && at.theirs == nil && at.wanted != nil:
		return runtime.DeepCopyJSONValue(at.live)
	default:
		return sole(at.live, at.ours, at.theirs)
	}
}

// ownedAsWhole tells whether one cannot own only a part of the place.
func (at place) ownedAsWhole() bool {
	return at.whole || isLeaf(at.ours) && len(at.theirs) == 0 || isLeaf(at.theirs) && len(at.ours) == 0
}

func (at place) leaveFields(live map[string]any, p pointer) any {
	wanted, ok := at.wanted.(map[string]any)
	if !ok && at.wanted != nil {
		return at.wanted
	}
	before := len(wanted)
	for _, name := range p[0].names(wanted, live) {
		key := fieldPrefix + name
		value := place{wanted[name], live[name], child(at.ours, key), child(at.theirs, key), at.ownedAsWhole()}.leave(p[1:])
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
		return nil // nothing is left to say about it
	}
	return wanted
}

// leaveItems is for lists that are owned as a whole: what is named keeps its live value, in place.
func (at place) leaveItems(live []any, p pointer) any {
	wanted, ok := at.wanted.([]any)
	if !ok {
		return at.wanted
	}
	var items []any
	for i, item := range wanted {
		if p[0].picks(i, item) {
			item = place{wanted: item, live: counterpart(p[0], live, i), whole: true}.leave(p[1:])
		}
		if item != nil {
			items = append(items, item)
		}
	}
	return items
}

// counterpart is the live item that takes the place of the manifest's: the selected one, or that of the same number.
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

// leaveKeyed is for lists whose items have owners of their own.
func (at place) leaveKeyed(live []any, p pointer) any {
	wanted, ok := at.wanted.([]any)
	if !ok && at.wanted != nil {
		return at.wanted
	}
	known, next := keys(at.ours, at.theirs), 0
	if len(known) == 0 { // a set: its items have no parts
		return at.leaveSet(p)
	}
	if len(p) == 1 {
		wanted = drop(wanted, live, known, p[0])
	}
	for i, item := range live {
		name := nameOf(item, known)
		if name == "" {
			continue
		}
		position := find(wanted, known[name])
		if !p[0].picks(positionOr(position, i), item) || position < 0 && len(p) > 1 {
			next = max(next, position+1)
			continue // not named, or a part of an item that the manifest holds no more
		}
		here := place{live: item, ours: child(at.ours, name), theirs: child(at.theirs, name)}
		if position >= 0 {
			here.wanted = wanted[position]
		}
		wanted, next = put(wanted, position, next, here.leaveItem(p[1:], known[name]))
	}
	if len(wanted) == 0 {
		return nil
	}
	return wanted
}

func positionOr(position, otherwise int) int {
	if position < 0 {
		return otherwise
	}
	return position
}

// put sets, inserts or removes an item, and returns where the next one would be inserted: items keep their live order.
func put(list []any, position, next int, item any) ([]any, int) {
	switch {
	case position < 0 && item == nil:
		return list, next
	case position < 0:
		return append(list[:next:next], append([]any{item}, list[next:]...)...), next + 1
	case item == nil:
		return append(list[:position:position], list[position+1:]...), position
	default:
		list[position] = item
		return list, position + 1
	}
}

// drop removes the items that are named and that do not exist: they are left to others, too.
func drop(wanted, live []any, known map[string]map[string]any, s step) []any {
	there := map[int]bool{}
	for _, item := range live {
		if name := nameOf(item, known); name != "" {
			there[find(wanted, known[name])] = true
		}
	}
	var kept []any
	for i, item := range wanted {
		if there[i] || !s.picks(i, item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// leaveSet is for lists whose items are values. A star names them all; they have no other names.
func (at place) leaveSet(p pointer) any {
	if len(p) > 1 || !p[0].any {
		return at.wanted
	}
	return at.keep()
}

// leaveItem is leave for an item of a keyed list. What is left of it has the fields that tell it from others.
func (at place) leaveItem(p pointer, key map[string]any) any {
	if len(p) == 0 {
		return soleItem(at.live, key, at.ours, at.theirs)
	}
	fields, ok := at.leave(p).(map[string]any)
	if !ok {
		return at.wanted
	}
	maps.Copy(fields, key)
	return fields
}

// isLeats tells the names of Leat's own labels.
func isLeats(name string) bool {
	return strings.HasPrefix(name, "leat.dev/")
}
