// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Settled reports whether applying wanted as Leat would change nothing in live, neither values nor
// owners. It reports false without live, and if in doubt.
func Settled(wanted, live *unstructured.Unstructured) bool {
	_, own := ownEntry(live)
	if own == nil || own.apiVersion() != wanted.GetAPIVersion() {
		return false
	}
	// The names and the kind of an object have no owner.
	metadata, _ := wanted.Object["metadata"].(map[string]any)
	return settledFields(wanted.Object, live.Object, own.owned(), "apiVersion", "kind", "metadata") &&
		settledFields(metadata, live.Object["metadata"], child(own.owned(), "f:metadata"), "name", "namespace")
}

// settled reports whether the value in the cluster is the wanted one, and Leat owns all of that and
// nothing else there.
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
	return owned != nil && (isSame(wanted, live) || equality.Semantic.DeepEqual(wanted, live))
}

// settledFields is settled for a map that is owned in parts, except the fields without an owner.
func settledFields(wanted map[string]any, live any, owned tree, unowned ...string) bool {
	fields, ok := live.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range wanted {
		if !slices.Contains(unowned, name) && !settled(value, fields[name], child(owned, fieldPrefix+name)) {
			return false
		}
	}
	for key := range owned {
		if name, ok := strings.CutPrefix(key, fieldPrefix); ok {
			if _, isWanted := wanted[name]; !isWanted {
				return false // applying would remove it
			}
		}
	}
	return true
}

// settledItems is settled for a list whose items have owners of their own. The wanted items must be
// there in the same order, other owners' items between them do not count, and Leat must own exactly
// these items: an owned one that is not wanted would be removed.
func settledItems(wanted []any, live any, owned tree) bool {
	list, ok := live.([]any)
	if !ok {
		return false
	}
	known, count, last := keys(owned), 0, -1
	for _, item := range wanted {
		if name := nameOfWanted(item, known); name != "" {
			position := find(list, known[name])
			if position <= last || !settled(item, list[position], child(owned, name)) {
				return false // it is not there, or in another place
			}
			count, last = count+1, position
		} else if nameOfValue(owned, item) != "" {
			count++
		}
	}
	if _, ownsList := owned[self]; ownsList {
		return count == len(wanted) && count+1 == len(owned)
	}
	return count == len(wanted) && count == len(owned)
}
