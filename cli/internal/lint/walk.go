// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// violation is one difference between a value and a schema. Its message holds no value.
type violation struct{ field, message string }

const unknownField = "unknown field"

// walker compares the values of one object with a schema, and finds all differences. The library's
// own validation stops at the first unknown field of each map.
type walker struct {
	schema *smd.Schema
	found  []violation
}

func (w *walker) report(at, format string, args ...any) {
	w.found = append(w.found, violation{field: strings.TrimPrefix(at, "."), message: fmt.Sprintf(format, args...)})
}

// value compares a value. Null stands for a field that is not set.
func (w *walker) value(at string, of smd.TypeRef, value any) {
	atom, ok := w.schema.Resolve(of)
	if !ok || value == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if atom.Map == nil {
			w.report(at, "want %s, got a map", wanted(atom))
			return
		}
		w.fields(at, atom.Map, v)
	case []any:
		if atom.List == nil {
			w.report(at, "want %s, got a list", wanted(atom))
			return
		}
		w.items(at, atom.List, v)
	default:
		if got := kindOf(value); atom.Scalar == nil || *atom.Scalar != smd.Untyped && *atom.Scalar != got {
			w.report(at, "want %s, got %s", wanted(atom), scalarText(got))
		}
	}
}

// fields compares the fields of a map, in the order of their names.
func (w *walker) fields(at string, of *smd.Map, fields map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		declared, ok := of.FindField(name)
		switch {
		case ok:
			w.value(at+"."+name, declared.Type, fields[name])
		case of.ElementType == smd.TypeRef{}:
			w.report(at+"."+name, unknownField)
		default:
			w.value(at+"."+name, of.ElementType, fields[name])
		}
	}
}

// items compares the items of a list. Server-side apply refuses two items with one key.
func (w *walker) items(at string, of *smd.List, items []any) {
	first := map[string]int{}
	for i, item := range items {
		where := fmt.Sprintf("%s[%d]", at, i)
		if of.ElementRelationship == smd.Associative {
			key := w.key(of, item)
			if before, twice := first[key]; twice && key != "" {
				w.report(where, "is identified by %s, as item %d is", strings.Join(identity(of), " and "), before)
			} else {
				first[key] = i
			}
		}
		w.value(where, of.ElementType, item)
	}
}

// identity names the fields that identify an item.
func identity(of *smd.List) []string {
	if len(of.Keys) == 0 {
		return []string{"its value"}
	}
	return of.Keys
}

// key returns a text that is equal for items that server-side apply takes for the same one. It is
// empty for an item without any of the fields that identify it.
func (w *walker) key(of *smd.List, item any) string {
	if len(of.Keys) == 0 {
		return fmt.Sprintf("%T %v", item, item)
	}
	fields, _ := item.(map[string]any)
	element, _ := w.schema.Resolve(of.ElementType)
	var parts []string
	hasOne := false
	for _, name := range of.Keys {
		value, given := fields[name]
		if !given && element.Map != nil {
			if declared, ok := element.FindField(name); ok {
				value = declared.Default
			}
		}
		hasOne = hasOne || given
		parts = append(parts, fmt.Sprintf("%v", value))
	}
	if !hasOne {
		return ""
	}
	return strings.Join(parts, "\x00")
}

// kindOf returns the kind of a scalar.
func kindOf(value any) smd.Scalar {
	switch value.(type) {
	case string:
		return smd.String
	case bool:
		return smd.Boolean
	default:
		return smd.Numeric
	}
}

func scalarText(of smd.Scalar) string {
	switch of {
	case smd.String:
		return "text"
	case smd.Boolean:
		return "true or false"
	case smd.Numeric:
		return "a number"
	default:
		return "a single value"
	}
}

// wanted describes what a schema accepts.
func wanted(atom smd.Atom) string {
	var all []string
	if atom.Map != nil {
		all = append(all, "a map")
	}
	if atom.List != nil {
		all = append(all, "a list")
	}
	if atom.Scalar != nil {
		all = append(all, scalarText(*atom.Scalar))
	}
	return strings.Join(all, " or ")
}
