// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Settled tells that applying wanted as Leat would change nothing in live, neither values nor owners. Without live, and in
// doubt, it does not.
func Settled(wanted, live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	_, own := ownEntry(live)
	if own == nil || own.apiVersion() != wanted.GetAPIVersion() {
		return false
	}
	for name, value := range wanted.Object {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			if !settledMetadata(value, live.Object[name], child(own.owned(), "f:metadata")) {
				return false
			}
		default:
			if !settled(value, live.Object[name], child(own.owned(), fieldPrefix+name)) {
				return false
			}
		}
	}
	return !ownsMore(own.owned(), wanted.Object)
}

func settledMetadata(wanted, live any, owned tree) bool {
	fields, _ := wanted.(map[string]any)
	there, _ := live.(map[string]any)
	for name, value := range fields {
		if name != "name" && name != "namespace" && !settled(value, there[name], child(owned, fieldPrefix+name)) {
			return false
		}
	}
	return !ownsMore(owned, fields)
}

// ownsMore tells whether a tree has fields that the map lacks: they would go.
func ownsMore(owned tree, fields map[string]any) bool {
	for key := range owned {
		if name, ok := strings.CutPrefix(key, fieldPrefix); ok {
			if _, there := fields[name]; !there {
				return true
			}
		}
	}
	return false
}

func settled(wanted, live any, owned tree) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		if len(owned) > 0 {
			return settledFields(wanted, live, owned)
		}
	case []any:
		if len(owned) > 0 {
			return settledItems(wanted, live, owned)
		}
	}
	return owned != nil && (same(wanted, live) || equality.Semantic.DeepEqual(wanted, live))
}

func settledFields(wanted map[string]any, live any, owned tree) bool {
	there, ok := live.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range wanted {
		if !settled(value, there[name], child(owned, fieldPrefix+name)) {
			return false
		}
	}
	return !ownsMore(owned, wanted)
}

func settledItems(wanted []any, live any, owned tree) bool {
	there, ok := live.([]any)
	if !ok {
		return false
	}
	known, count, last := keys(owned), 0, -1
	for _, item := range wanted {
		name := nameOfWanted(item, known)
		if name == "" {
			continue
		}
		position := find(there, known[name])
		if position <= last || !settled(item, there[position], child(owned, name)) {
			return false // it is not there, or in another place
		}
		count, last = count+1, position
	}
	for _, item := range wanted {
		if name := valueIn(owned, item); name != "" {
			count++
		}
	}
	if _, itself := owned[self]; itself {
		count++
		return count == len(wanted)+1 && count == len(owned)
	}
	return count == len(wanted) && count == len(owned)
}

// nameOfWanted is nameOf for an item of a manifest, which may leave fields of its key to their defaults.
func nameOfWanted(item any, keys map[string]map[string]any) string {
	best, most := "", 0
	for name, key := range keys {
		if n := agree(item, key); n > most {
			best, most = name, n
		}
	}
	return best
}
