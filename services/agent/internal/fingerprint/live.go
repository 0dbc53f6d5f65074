// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Live returns the sum of what manager has applied: the object's name and namespace, whether it is
// being deleted, which fields belong to the manager, and their values. The status never counts. If
// the object was applied in several API versions, the fields of all versions count. That is good
// enough, because the sum is only compared with other sums of the same object.
func Live(o *unstructured.Unstructured, manager string) Sum {
	h := newHasher()
	metadata, _ := o.Object["metadata"].(map[string]any)
	for _, field := range [...]string{"namespace", "name", "deletionTimestamp"} {
		h.value(metadata[field])
	}
	for _, entry := range owned(metadata, manager) {
		h.text('v', entry.version)
		h.owned(entry.fields, o.Object, true)
	}
	return h.sum()
}

// ownership is the set of fields that a manager applied in one API version, in the notation of
// FieldsV1.
type ownership struct {
	version string
	fields  map[string]any
}

// owned returns the fields that manager has applied, by API version. Fields that the manager wrote
// in another way, such as by an update or through a subresource, are not included.
func owned(metadata map[string]any, manager string) []ownership {
	entries, _ := metadata["managedFields"].([]any)
	var found []ownership
	for _, item := range entries {
		entry, _ := item.(map[string]any)
		subresource, _ := entry["subresource"].(string)
		if entry["manager"] != manager || entry["operation"] != "Apply" || subresource != "" {
			continue
		}
		version, _ := entry["apiVersion"].(string)
		fields, _ := entry["fieldsV1"].(map[string]any)
		found = append(found, ownership{version: version, fields: fields})
	}
	slices.SortFunc(found, func(a, b ownership) int { return strings.Compare(a.version, b.version) })
	return found
}

// owned adds a set of fields and their values. A manager may own a field that does not exist.
func (h *hasher) owned(set map[string]any, value any, top bool) {
	h.eachField(set, func(element string, below any) {
		if top && element == "f:status" {
			return
		}
		h.text('k', element)
		inner, _ := below.(map[string]any)
		found, exists := find(value, element)
		if top && !exists && element == "f:stringData" {
			found, exists = find(value, "f:data") // the API server moves plain text of a Secret's manifest there
		}
		if exists && len(inner) == 0 {
			h.value(found)
			return
		}
		h.owned(inner, found, false)
	})
}
