// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// sole returns a copy of the parts of a live value that only Leat owns, or nil if Leat owns no part
// alone. An empty map or list counts as a part if Leat alone owns that it exists. A value that Leat
// owns as a whole is not returned if others own it, too, or own parts of it: applying it would
// overwrite their parts.
func sole(live any, ours, theirs tree) any {
	switch {
	case live == nil || ours == nil || isLeaf(ours) && theirs != nil:
		return nil
	case isLeaf(ours):
		return runtime.DeepCopyJSONValue(live)
	}
	isAlone := isMember(ours) && !isMember(theirs)
	switch live := live.(type) {
	case map[string]any:
		if kept := soleFields(live, ours, theirs); len(kept) > 0 || isAlone {
			return kept
		}
	case []any:
		if kept := soleItems(live, ours, theirs); len(kept) > 0 || isAlone {
			return kept
		}
	}
	return nil
}

// isMember reports whether the node itself is owned, and not only parts of it.
func isMember(t tree) bool {
	_, isThere := t[self]
	return isThere || isLeaf(t)
}

// soleFields returns the fields of a map, possibly none.
func soleFields(live map[string]any, ours, theirs tree) map[string]any {
	kept := map[string]any{}
	for key := range ours {
		name, ok := strings.CutPrefix(key, fieldPrefix)
		if !ok {
			continue
		}
		if value := sole(live[name], child(ours, key), child(theirs, key)); value != nil {
			kept[name] = value
		}
	}
	return kept
}

// soleItems returns the items in their live order.
func soleItems(live []any, ours, theirs tree) []any {
	kept, known := []any{}, keys(ours)
	for _, item := range live {
		if name := nameOf(item, known); name != "" {
			if fields := soleItem(item, known[name], child(ours, name), child(theirs, name)); fields != nil {
				kept = append(kept, fields)
			}
		} else if nameOfValue(ours, item) != "" && nameOfValue(theirs, item) == "" {
			kept = append(kept, item)
		}
	}
	return kept
}

// soleItem returns one item of a list, or nil if Leat owns nothing of it alone. The fields of its
// key do not count as owned, since everybody that owns any part of the item names them, but the
// item could not be told from others without them.
func soleItem(item any, key map[string]any, ours, theirs tree) any {
	live, ok := item.(map[string]any)
	if !ok {
		return nil
	}
	kept := soleFields(live, ours, theirs)
	if len(kept) == 0 && (!isMember(ours) || isMember(theirs)) {
		return nil
	}
	maps.Copy(kept, key)
	return kept
}

// omit removes the fields that are theirs from wanted, which it changes, except the fields of key.
// It returns the rest, or nil if there is none.
func omit(wanted any, ours, theirs tree, key map[string]any) any {
	if theirs == nil {
		return wanted
	}
	switch value := wanted.(type) {
	case map[string]any:
		if isLeaf(theirs) && len(ours) > 0 {
			return wanted // they own that there is such a map, and none of its fields
		}
		return omitFields(value, ours, theirs, key)
	case []any:
		return omitItems(value, ours, theirs)
	default:
		return nil
	}
}

// omitFields is omit for a map. Nil is left of one that had fields and lost them all, since an
// empty map means something else.
func omitFields(wanted map[string]any, ours, theirs tree, key map[string]any) any {
	if isLeaf(theirs) && key == nil {
		return nil
	}
	before := len(wanted)
	for name, value := range wanted {
		_, isKey := key[name]
		owned := child(theirs, fieldPrefix+name)
		if isKey || owned == nil {
			continue
		}
		if left := omit(value, child(ours, fieldPrefix+name), owned, nil); left == nil {
			delete(wanted, name)
		} else {
			wanted[name] = left
		}
	}
	if len(wanted) == 0 && before > 0 {
		return nil
	}
	return wanted
}

// omitItems leaves of an item that is theirs no less than its key, so that Leat does not give up
// its part in the item.
func omitItems(wanted []any, ours, theirs tree) any {
	if isLeaf(theirs) {
		return nil
	}
	for name, key := range keys(theirs) {
		if i := find(wanted, key); i >= 0 {
			if wanted[i] = omit(wanted[i], child(ours, name), child(theirs, name), key); wanted[i] == nil {
				wanted[i] = key
			}
		}
	}
	kept := slices.DeleteFunc(wanted, func(item any) bool { return nameOfValue(theirs, item) != "" })
	if len(kept) == 0 {
		return nil
	}
	return kept
}
