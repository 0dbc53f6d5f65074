// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Bounds of what a record holds of a change.
const (
	// maxValue bounds one value, and maxPath its path, in bytes of JSON.
	maxValue, maxPath = 4 << 10, 1 << 10
	// maxFields bounds the paths and values of one record, and maxEdit the same of all records of one
	// edit. The queue of an audit output has room for several edits.
	maxFields, maxEdit = 64 << 10, 4 << 20
	// fixed is about what a field takes beside its path and values.
	fixed = 32
)

// fieldsOf returns the differing fields of two documents, in the order of the paths, secrets
// included by name, within budget bytes, and how many fields there was no room for. The documents
// are JSON without secrets; nil stands for an object that does not exist. Applied to the values of
// before, the fields yield the values of after, unless a value is cut.
func fieldsOf(before, after []byte, secrets map[string]catalog.SecretEffect, budget int) (fields []audit.FieldChange, omitted int, err error) {
	old, err := valuesOf(before)
	if err != nil {
		return nil, 0, err
	}
	values, err := valuesOf(after)
	if err != nil {
		return nil, 0, err
	}
	changed := map[string]bool{}
	for path, value := range old {
		changed[path] = changed[path] || values[path] != value
	}
	for path, value := range values {
		changed[path] = changed[path] || old[path] != value
	}
	for path := range secrets {
		changed[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		if !changed[path] {
			continue
		}
		effect, isSecret := secrets[path]
		if !isSecret && strings.HasPrefix(path, secretsPrefix) {
			continue // the key of a secret stands for it in documents
		}
		field := audit.FieldChange{Path: audit.Cut(path, maxPath)}
		if isSecret {
			field.Secret, field.Effect = true, string(effect)
		} else {
			field.Old, field.New = rawOf(old, path), rawOf(values, path)
		}
		if budget -= fixed + len(field.Path) + len(field.Old) + len(field.New); budget < 0 {
			omitted++
			continue
		}
		fields = append(fields, field)
	}
	return fields, omitted, nil
}

// secretsPrefix begins the paths of a service's secrets, which documents have without their values.
const secretsPrefix = "spec.config.secrets"

// rawOf returns a value as JSON, or nil if the field is not set. A long one becomes a string that begins as
// the value does.
func rawOf(values map[string]string, path string) json.RawMessage {
	value, ok := values[path]
	if !ok {
		return nil
	}
	if len(value) > maxValue {
		return json.RawMessage(quote(audit.Cut(value, maxValue)))
	}
	return json.RawMessage(value)
}

// recorded are the parts of a document that people write, and who manages the object.
type recorded struct {
	Metadata struct {
		Labels      map[string]any `json:"labels,omitempty"`
		Annotations map[string]any `json:"annotations,omitempty"`
		Manager     map[string]any `json:"manager,omitempty"`
	} `json:"metadata"`
	Spec any `json:"spec"`
}

// valuesOf returns the values in a document as JSON, by path.
func valuesOf(document []byte) (map[string]string, error) {
	values := map[string]string{}
	if document == nil {
		return values, nil
	}
	var parts recorded
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&parts); err != nil {
		return nil, fmt.Errorf("read document of a change: %w", err)
	}
	flatten(values, "metadata.labels", parts.Metadata.Labels)
	flatten(values, "metadata.annotations", parts.Metadata.Annotations)
	flatten(values, "metadata.manager", parts.Metadata.Manager)
	if parts.Spec != nil {
		flatten(values, "spec", parts.Spec)
	}
	return values, nil
}

// flatten adds the values below a path. An empty list or object is a value.
func flatten(values map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(values, path+keyPath(key), value)
		}
		if v != nil && len(v) == 0 {
			values[path] = "{}"
		}
	case []any:
		for i, value := range v {
			flatten(values, path+"["+strconv.Itoa(i)+"]", value)
		}
		if len(v) == 0 {
			values[path] = "[]"
		}
	case string:
		values[path] = quote(v)
	case json.Number:
		values[path] = v.String()
	case bool:
		values[path] = strconv.FormatBool(v)
	case nil:
		values[path] = "null"
	}
}

// keyPath returns what a key adds to a path.
func keyPath(key string) string {
	isPlain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
	}
	if key != "" && strings.IndexFunc(key, func(r rune) bool { return !isPlain(r) }) < 0 {
		return "." + key
	}
	return "[" + quote(key) + "]"
}

// quote returns a text as JSON, with the characters that HTML uses as they are.
func quote(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return `""` // no text is refused
	}
	return strings.TrimSuffix(b.String(), "\n")
}
