// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Live sums up what the cluster has of what manager has applied: the object's name and namespace, whether it is being
// deleted, which fields belong to the manager, and what stands in them. The status never counts. Of an object that was
// applied in several API versions all are counted, which is as good as any: the sum is only compared with others of
// itself.
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

// ownership is the set of fields that a manager applied in one API version, as FieldsV1 writes it.
type ownership struct {
	version string
	fields  map[string]any
}

// owned lists what manager has applied, by API version. What was written otherwise than by an apply to the object itself,
// such as by an update or through a subresource, is not listed.
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

// owned adds a set of fields, and what stands in them in value. A manager may own what is not there.
func (h *hasher) owned(set map[string]any, value any, top bool) {
	h.some(set, func(element string, below any) {
		if top && element == "f:status" {
			return
		}
		h.text('k', element)
		inner, _ := below.(map[string]any)
		found, exists := find(value, element)
		if top && !exists && element == "f:stringData" {
			found, exists = find(value, "f:data") // where the API server puts what a Secret's manifest has in plain text
		}
		if exists && len(inner) == 0 {
			h.value(found)
			return
		}
		h.owned(inner, found, false)
	})
}
