// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// isKeyed reports whether the items of a list have owners of their own, by key or by value. Other
// lists are owned as a whole.
func isKeyed(trees ...tree) bool {
	for _, t := range trees {
		for key := range t {
			if strings.HasPrefix(key, keyPrefix) || strings.HasPrefix(key, valuePrefix) {
				return true
			}
		}
	}
	return false
}

// decode reads the text after a child's prefix.
func decode(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil // the API server writes only JSON
	}
	return value
}

// keys returns the items of a keyed list that have owners in any of the trees: the fields of each
// item's key, by the item's name in the trees.
func keys(trees ...tree) map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, t := range trees {
		for name := range t {
			text, ok := strings.CutPrefix(name, keyPrefix)
			if !ok || found[name] != nil {
				continue
			}
			if key, ok := decode(text).(map[string]any); ok {
				found[name] = key
			}
		}
	}
	return found
}

// find returns the position of the item with that key, or -1. If an item omits a field of the key,
// the field has its default; an item that names all of them is preferred.
func find(list []any, key map[string]any) int {
	best, most := -1, 0
	for i, item := range list {
		if n := countEqual(item, key); n > most {
			best, most = i, n
		}
	}
	return best
}

// countEqual returns how many fields of the key the item has, or 0 if one of them differs.
func countEqual(item any, key map[string]any) int {
	fields, ok := item.(map[string]any)
	if !ok {
		return 0
	}
	n := 0
	for name, want := range key {
		got, isThere := fields[name]
		switch {
		case !isThere:
		case isSame(got, want):
			n++
		default:
			return 0
		}
	}
	return n
}

// nameOf returns the name of a live item in a tree, or "" if it has no owner. Live items have all
// fields of their key.
func nameOf(item any, keys map[string]map[string]any) string {
	for name, key := range keys {
		if countEqual(item, key) == len(key) {
			return name
		}
	}
	return ""
}

// nameOfWanted is nameOf for an item of a manifest, which may omit fields of its key that have
// defaults.
func nameOfWanted(item any, keys map[string]map[string]any) string {
	best, most := "", 0
	for name, key := range keys {
		if n := countEqual(item, key); n > most {
			best, most = name, n
		}
	}
	return best
}

// nameOfValue returns the name of a set's item in its tree, or "" if it has none there.
func nameOfValue(t tree, item any) string {
	for name := range t {
		if text, ok := strings.CutPrefix(name, valuePrefix); ok && isSame(decode(text), item) {
			return name
		}
	}
	return ""
}

// isSame reports whether two scalars are equal, numbers by value.
func isSame(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a.(type) {
	case string, bool, nil:
		return a == b
	default:
		return false
	}
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case int:
		return float64(v), true
	default:
		return 0, false
	}
}
