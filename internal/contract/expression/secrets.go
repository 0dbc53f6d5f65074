// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import "maps"

// Blanked is the value that expressions see in place of each value of a Secret.
const Blanked = "redacted"

// withoutSecrets returns the object as expressions see it. Of a Secret they see the keys of data and
// stringData, and of annotations, but no values: tools keep copies of a Secret in its annotations.
// Other objects are returned as they are.
func withoutSecrets(object map[string]any) map[string]any {
	if _, ok := object["apiVersion"].(string); !ok || object["kind"] != "Secret" {
		return object
	}
	blanked := maps.Clone(object)
	for _, field := range []string{"data", "stringData"} {
		blankIn(blanked, field)
	}
	if metadata, ok := blanked["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		blankIn(metadata, "annotations")
		blanked["metadata"] = metadata
	}
	return blanked
}

// blankIn replaces the values of a map in a field. A field that has no map is replaced as a whole.
func blankIn(fields map[string]any, field string) {
	value, exists := fields[field]
	if !exists {
		return
	}
	values, ok := value.(map[string]any)
	if !ok {
		fields[field] = Blanked
		return
	}
	blanked := make(map[string]any, len(values))
	for key := range values {
		blanked[key] = Blanked
	}
	fields[field] = blanked
}
