// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hop is one step from a value to a part of it.
type hop struct {
	name string // of a field
	item int    // position in a list; -1 for a field
}

// locate finds what the API server calls by that path, such as .spec.containers[name="app"].image. Names of fields may hold
// dots, so only the value can say where one ends.
func locate(value any, path string) ([]hop, bool) {
	if path == "" {
		return nil, true
	}
	switch value := value.(type) {
	case map[string]any:
		return locateField(value, path)
	case []any:
		return locateItem(value, path)
	default:
		return nil, false
	}
}

func locateField(fields map[string]any, path string) ([]hop, bool) {
	rest, ok := strings.CutPrefix(path, ".")
	if !ok {
		return nil, false
	}
	for name, value := range fields {
		after, ok := strings.CutPrefix(rest, name)
		if !ok || after != "" && after[0] != '.' && after[0] != '[' {
			continue
		}
		if hops, ok := locate(value, after); ok {
			return append([]hop{{name, -1}}, hops...), true
		}
	}
	return nil, false
}

func locateItem(list []any, path string) ([]hop, bool) {
	key, rest, ok := cutKey(path)
	if !ok {
		return nil, false
	}
	item := slices.IndexFunc(list, func(item any) bool { return same(item, key[""]) })
	if _, isValue := key[""]; !isValue {
		item = find(list, key)
	}
	if item < 0 {
		return nil, false
	}
	hops, ok := locate(list[item], rest)
	return append([]hop{{"", item}}, hops...), ok
}

// cutKey reads [name="app",port=80], or [="value"], which it returns under the empty name.
func cutKey(path string) (key map[string]any, rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, "[")
	key = map[string]any{}
	for ok {
		var name, text string
		if name, rest, ok = strings.Cut(rest, "="); !ok {
			break
		}
		if text, rest, ok = cutScalar(rest); !ok {
			break
		}
		key[name] = decode(text)
		if after, end := strings.CutPrefix(rest, "]"); end {
			return key, after, true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return nil, "", false
}

func cutScalar(text string) (scalar, rest string, ok bool) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		return quoted, text[len(quoted):], true
	}
	end := strings.IndexAny(text, ",]")
	if end <= 0 {
		return "", "", false
	}
	return text[:end], text[end:], true
}

// Without returns a copy of o that lacks the fields of those names, which are the API server's, as in conflicts. What they
// were the last part of is left out, too, but for items of lists. Names of nothing in o have no effect.
func Without(o *unstructured.Unstructured, names ...string) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, name := range names {
		if hops, ok := locate(o.Object, name); ok && len(hops) > 0 {
			cut(o.Object, hops)
		}
	}
	return o
}

// cut removes the part that hops lead to, and returns what is left, nil where that is nothing.
func cut(value any, hops []hop) any {
	if len(hops) == 0 {
		return nil
	}
	if list, ok := value.([]any); ok {
		return cutItem(list, hops)
	}
	fields, _ := value.(map[string]any)
	left := cut(fields[hops[0].name], hops[1:])
	if left != nil {
		fields[hops[0].name] = left
		return fields
	}
	if delete(fields, hops[0].name); len(fields) == 0 {
		return nil
	}
	return fields
}

func cutItem(list []any, hops []hop) any {
	i := hops[0].item
	if left := cut(list[i], hops[1:]); left != nil {
		list[i] = left
		return list
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		return nil
	}
	return list
}

// Field tells whether the field of o that the API server calls by that name is ignored.
func (i Ignored) Field(o *unstructured.Unstructured, name string) bool {
	hops, ok := locate(o.Object, name)
	return ok && slices.ContainsFunc(i.pointers, func(p pointer) bool { return p.covers(o.Object, hops) })
}

// covers tells whether the pointer names the part of value that hops lead to, or something that it lies in.
func (p pointer) covers(value any, hops []hop) bool {
	if len(p) > len(hops) {
		return false
	}
	for i, s := range p {
		switch container := value.(type) {
		case map[string]any:
			if !s.any && s.name != hops[i].name {
				return false
			}
			value = container[hops[i].name]
		case []any:
			if !s.picks(hops[i].item, container[hops[i].item]) {
				return false
			}
			value = container[hops[i].item]
		}
	}
	return true
}

// Legible is the API server's name of a field as people read it: without the leading dot, and without quotes where they say
// nothing. Masked shows nothing of what items of lists are called by.
func Legible(name string, masked bool) string {
	var b strings.Builder
	for rest := strings.TrimPrefix(name, "."); rest != ""; {
		if key, after, ok := cutKey(rest); ok {
			b.WriteString(bracket(key, masked))
			rest = after
			continue
		}
		b.WriteByte(rest[0])
		rest = rest[1:]
	}
	return b.String()
}

// bracket spells the key of an item.
func bracket(key map[string]any, masked bool) string {
	if masked {
		return "[…]"
	}
	var conditions []string
	for _, name := range slices.Sorted(maps.Keys(key)) {
		conditions = append(conditions, name+"="+spell(key[name]))
	}
	return "[" + strings.Join(conditions, ",") + "]"
}
