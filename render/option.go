// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
)

// Expand returns a value of a step's options with every ${NAME} in its texts replaced. The value
// has the types that encoding/json decodes into an any; it stays as it is, and the result shares
// nothing that changed. A text that is one single ${NAME} becomes a number or a boolean if the
// variable spells one. Keys of maps are not expanded. Nil Variables return the value itself.
//
// The error names field and the place below it. It has a *VariableError in its chain if a variable
// has neither value nor default.
func (v *Variables) Expand(field string, value any) (any, error) {
	if v == nil {
		return value, nil
	}
	o := optionExpansion{expansion: expansion{lookUp: NewSubstitution(*v).lookUp, room: maxGrowth}}
	return o.value(field, value)
}

// ExpandTexts returns texts of a step's options, by their names, with every ${NAME} replaced. The
// results are always texts. It returns the errors of Expand.
func (v *Variables) ExpandTexts(field string, texts map[string]string) (map[string]string, error) {
	if v == nil || len(texts) == 0 {
		return texts, nil
	}
	o := optionExpansion{expansion: expansion{lookUp: NewSubstitution(*v).lookUp, room: maxGrowth}}
	expanded := make(map[string]string, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text, _, err := o.text(field+"."+name, texts[name])
		if err != nil {
			return nil, err
		}
		expanded[name] = text
	}
	return expanded, nil
}

// optionExpansion replaces variables in the options of one step, which share the room for growth.
type optionExpansion struct{ expansion }

func (o *optionExpansion) value(field string, value any) (any, error) {
	switch v := value.(type) {
	case string:
		text, whole, err := o.text(field, v)
		if err != nil || !whole {
			return text, err
		}
		return Typed(text), nil
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			expanded, err := o.value(fmt.Sprintf("%s[%d]", field, i), item)
			if err != nil {
				return nil, err
			}
			items[i] = expanded
		}
		return items, nil
	case map[string]any:
		fields := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			expanded, err := o.value(field+"."+name, v[name])
			if err != nil {
				return nil, err
			}
			fields[name] = expanded
		}
		return fields, nil
	default:
		return value, nil
	}
}

// text replaces the variables in one text. Whole reports that it is one single expression.
func (o *optionExpansion) text(field, text string) (expanded string, whole bool, err error) {
	expanded, whole, err = o.expand(text)
	if err != nil {
		return "", false, &Error{Path: field, Cause: err}
	}
	if len(o.missing) > 0 {
		return "", false, &Error{Path: field, Cause: &VariableError{Object: "the step's options", Names: slices.Sorted(slices.Values(o.missing))}}
	}
	return expanded, whole, nil
}
