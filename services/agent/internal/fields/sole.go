// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// sole returns a copy of those parts of a live value that we own and nobody else does, nil where there are none.
func sole(live any, ours, theirs tree) any {
	switch {
	case live == nil || ours == nil || len(ours) == 0 && theirs != nil:
		return nil
	case len(ours) == 0:
		return runtime.DeepCopyJSONValue(live)
	}
	_, member := ours[self]
	_, shared := theirs[self]
	alone := member && !shared && !isLeaf(theirs)
	switch live := live.(type) {
	case map[string]any:
		return soleFields(live, ours, theirs, alone)
	case []any:
		return soleItems(live, ours, theirs, alone)
	default:
		return nil
	}
}

func soleFields(live map[string]any, ours, theirs tree, alone bool) any {
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
	if len(kept) == 0 && !alone {
		return nil
	}
	return kept
}

func soleItems(live []any, ours, theirs tree, alone bool) any {
	kept, known := []any{}, keys(ours)
	for _, item := range live {
		if name := nameOf(item, known); name != "" {
			if fields := soleItem(item, known[name], child(ours, name), child(theirs, name)); fields != nil {
				kept = append(kept, fields)
			}
		} else if holds(ours, item) && !holds(theirs, item) {
			kept = append(kept, item)
		}
	}
	if len(kept) == 0 && !alone {
		return nil
	}
	return kept
}

// soleItem is one item of a list. The fields of its key do not count as something that we own, as everybody who owns any
// part of the item names them, but without them it could not be told from others.
func soleItem(item any, key map[string]any, ours, theirs tree) any {
	live, ok := item.(map[string]any)
	if !ok {
		return nil
	}
	_, member := ours[self]
	_, shared := theirs[self]
	fields, ok := soleFields(live, ours, theirs, (member || isLeaf(ours)) && !shared && !isLeaf(theirs)).(map[string]any)
	if !ok {
		return nil
	}
	maps.Copy(fields, key)
	return fields
}

// valueIn returns the name of a set's item in its tree, "" where it has none.
func valueIn(t tree, item any) string {
	for name := range t {
		if text, ok := strings.CutPrefix(name, valuePrefix); ok && same(decode(text), item) {
			return name
		}
	}
	return ""
}

func holds(t tree, item any) bool {
	return valueIn(t, item) != ""
}

// omit removes from wanted, which it changes, what its owners own, but for the fields of key, and returns what is left: nil
// where nothing is.
func omit(wanted any, ours, theirs tree, key map[string]any) any {
	if theirs == nil {
		return wanted
	}
	switch value := wanted.(type) {
	case map[string]any:
		if isLeaf(theirs) && len(ours) > 0 {
			return wanted // they say that there is such a map, and nothing of what is in it
		}
		return omitFields(value, ours, theirs, key)
	case []any:
		return omitItems(value, ours, theirs)
	default:
		return nil
	}
}

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
	kept := slices.DeleteFunc(wanted, func(item any) bool { return holds(theirs, item) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}
