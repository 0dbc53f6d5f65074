// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// The prefixes of children in a tree.
const (
	fieldPrefix = "f:"
	keyPrefix   = "k:"
	valuePrefix = "v:"
)

// keyed tells lists whose items have owners of their own, by key or by value; other lists are owned as a whole.
func keyed(trees ...tree) bool {
	for _, t := range trees {
		for key := range t {
			if strings.HasPrefix(key, keyPrefix) || strings.HasPrefix(key, valuePrefix) {
				return true
			}
		}
	}
	return false
}

// decode reads what follows a child's prefix.
func decode(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil // the API server writes no other
	}
	return value
}

// keys lists the items of a keyed list that have owners in any of the trees: their names there, and their key fields.
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

// find returns the position of the item with that key, -1 where there is none. A field of the key that the item leaves out
// has its default there; an item that names all of them comes before one that does not.
func find(list []any, key map[string]any) int {
	best, most := -1, 0
	for i, item := range list {
		if n := agree(item, key); n > most {
			best, most = i, n
		}
	}
	return best
}

// agree counts the fields of the key that the item has; none if one of them differs.
func agree(item any, key map[string]any) int {
	fields, ok := item.(map[string]any)
	if !ok {
		return 0
	}
	n := 0
	for name, want := range key {
		got, there := fields[name]
		switch {
		case !there:
		case same(got, want):
			n++
		default:
			return 0
		}
	}
	return n
}

// nameOf returns the name in a tree of a live item, "" where nobody owns it. Live items have all fields of their key.
func nameOf(item any, keys map[string]map[string]any) string {
	for name, key := range keys {
		if agree(item, key) == len(key) {
			return name
		}
	}
	return ""
}

// same compares scalars, numbers by value.
func same(a, b any) bool {
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

// spell is a scalar as a selector in a pointer names it.
func spell(v any) string {
	return fmt.Sprint(v)
}
