// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxFields bounds the fields that Fields returns: references in a schema multiply them.
	MaxFields = 5000
	// maxDepth bounds how deeply fields are nested, and how many references lead to a type.
	maxDepth = 32
)

// Field is a value that a schema describes.
type Field struct {
	// Path are the names that lead to the field from the top.
	Path []string
	// Type is such as "integer" or "string or null". Empty: the schema names none.
	Type string
	// Default is the default in JSON. Empty: the schema has none.
	Default string
	// Description is the schema's own, in one line. Empty: it has none.
	Description string
	// IsRequired reports that the map around the field must have it.
	IsRequired bool
}

// Fields returns the fields that a schema names as properties, a map before its fields, and sorted
// by name. Past MaxFields and a depth of 32 the rest is left out. Fields that are described by
// patterns or under conditions are not found.
func Fields(file string, text []byte) ([]Field, error) {
	compiled, err := Compile(file, text, "put the definitions into the schema")
	if err != nil {
		return nil, err
	}
	return fieldsOf(nil, compiled, nil), nil
}

// fieldsOf adds the fields below a path to the found ones.
func fieldsOf(found []Field, schema *jsonschema.Schema, above []string) []Field {
	schema = target(schema)
	if schema == nil || len(above) >= maxDepth {
		return found
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if len(found) >= MaxFields {
			return found
		}
		property := schema.Properties[name]
		described := target(property)
		at := append(slices.Clone(above), name)
		field := Field{
			Path: at, Type: strings.Join(typesOf(property), " or "), IsRequired: slices.Contains(schema.Required, name),
			Description: oneLine(property.Description), Default: encoded(property.Default),
		}
		if described != nil && field.Description == "" {
			field.Description = oneLine(described.Description)
		}
		if described != nil && field.Default == "" {
			field.Default = encoded(described.Default)
		}
		found = fieldsOf(append(found, field), property, at)
	}
	return found
}

// target returns the schema with properties that references lead to, or the last of them.
func target(schema *jsonschema.Schema) *jsonschema.Schema {
	for range maxDepth {
		if schema == nil || schema.Ref == nil || len(schema.Properties) > 0 {
			return schema
		}
		schema = schema.Ref
	}
	return nil
}

func encoded(value *any) string {
	if value == nil {
		return ""
	}
	text, err := json.Marshal(*value)
	if err != nil {
		return ""
	}
	return string(text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
