// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid is in every error about a rule that cannot be parsed.
var ErrInvalid = errors.New("invalid ignore rule")

// pointer names fields of an object by the steps that lead to them.
type pointer []step

// step is one part of a pointer: a name, which is also a number if it meets a list, a selector, or
// a star.
type step struct {
	name     string
	selector map[string]string // of items, by their fields; nil: none
	isAny    bool              // a star
}

// parse reads a JSON pointer (RFC 6901) whose parts may also be "*", any field or item, and
// "[name=app]", the items of a list with that field.
func parse(text string) (pointer, error) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, fmt.Errorf("%w: pointer %q does not begin with a slash", ErrInvalid, text)
	}
	var p pointer
	for escaped := range strings.SplitSeq(rest, "/") {
		s, err := parseStep(strings.NewReplacer("~1", "/", "~0", "~").Replace(escaped))
		if err != nil {
			return nil, fmt.Errorf("%w: pointer %q: %w", ErrInvalid, text, err)
		}
		p = append(p, s)
	}
	if p.namesIdentity() {
		return nil, fmt.Errorf("%w: pointer %q takes away what tells the object from others", ErrInvalid, text)
	}
	return p, nil
}

// parseStep reads one part of a pointer, without the escapes of RFC 6901.
func parseStep(text string) (step, error) {
	if text == "*" {
		return step{isAny: true}, nil
	}
	inner, opened := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !opened || !closed {
		return step{name: text}, nil
	}
	selector := map[string]string{}
	for condition := range strings.SplitSeq(inner, ",") {
		field, value, ok := strings.Cut(condition, "=")
		if !ok || field == "" {
			return step{}, fmt.Errorf("%q is not of the form [field=value]", text)
		}
		selector[field] = value
	}
	return step{selector: selector}, nil
}

// namesIdentity reports whether the pointer names a field without which no object can be applied.
func (p pointer) namesIdentity() bool {
	return slices.ContainsFunc([][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}}, p.leadsTo)
}

// leadsTo reports whether the pointer names the field at path, or something around it.
func (p pointer) leadsTo(path []string) bool {
	if len(p) > len(path) {
		return false
	}
	for i, s := range p {
		if !s.isAny && s.name != path[i] {
			return false
		}
	}
	return true
}

// picks reports whether the step names that item of a list.
func (s step) picks(position int, item any) bool {
	switch {
	case s.isAny:
		return true
	case s.selector == nil:
		return s.name == strconv.Itoa(position)
	}
	fields, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for name, want := range s.selector {
		if got, isThere := fields[name]; !isThere || spell(got) != want {
			return false
		}
	}
	return true
}

// spell returns a scalar as a selector in a pointer names it.
func spell(v any) string {
	return fmt.Sprint(v)
}

// names returns the fields that the step names. A star names the fields of any of the maps, each
// once.
func (s step) names(of ...map[string]any) []string {
	if s.selector != nil {
		return nil
	}
	if !s.isAny {
		return []string{s.name}
	}
	all := map[string]any{}
	for _, m := range of {
		maps.Copy(all, m)
	}
	return slices.Collect(maps.Keys(all))
}
