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

// Without returns a copy of o that lacks the fields of those names. The names are the API server's,
// as in conflicts: .spec.containers[name="app"].image. A map or list that loses its last part is
// left out, too, but an item of a keyed list keeps its key. Names of nothing in o have no effect.
func Without(o *unstructured.Unstructured, names ...string) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, name := range names {
		if name != "" {
			cut(o.Object, name)
		}
	}
	return o
}

// Field reports whether the field of o with the API server's name, or something around it, is
// ignored.
func (i Ignored) Field(o *unstructured.Unstructured, name string) bool {
	_, isThere := cut(o.DeepCopy().Object, name)
	_, isLeft := cut(i.Strip(o).DeepCopy().Object, name)
	return isThere && !isLeft
}

// cut removes the part of value at the end of path and returns the rest: nil if there is none. It
// changes value, unless it reports that there is no such part. The names of fields may hold dots
// and brackets, so only the value shows where one ends.
func cut(value any, path string) (left any, isThere bool) {
	if path == "" {
		return nil, true
	}
	switch value := value.(type) {
	case map[string]any:
		return cutField(value, path)
	case []any:
		return cutItem(value, path)
	default:
		return value, false
	}
}

func cutField(fields map[string]any, path string) (left any, isThere bool) {
	rest, ok := strings.CutPrefix(path, ".")
	if !ok {
		return fields, false
	}
	for name, value := range fields {
		after, ok := strings.CutPrefix(rest, name)
		if !ok || after != "" && after[0] != '.' && after[0] != '[' {
			continue
		}
		part, ok := cut(value, after)
		switch {
		case !ok:
			continue // a longer name may fit
		case part != nil:
			fields[name] = part
		default:
			delete(fields, name)
		}
		if len(fields) == 0 {
			return nil, true
		}
		return fields, true
	}
	return fields, false
}

func cutItem(list []any, path string) (left any, isThere bool) {
	key, rest, ok := parseKey(path)
	if !ok {
		return list, false
	}
	i := find(list, key)
	if value, isValue := key[""]; isValue {
		i = slices.IndexFunc(list, func(item any) bool { return isSame(item, value) })
	}
	if i < 0 {
		return list, false
	}
	item, ok := cut(list[i], rest)
	switch {
	case !ok:
		return list, false
	case item != nil:
		list[i] = item
	case len(list) == 1:
		return nil, true
	default:
		list = slices.Delete(list, i, i+1)
	}
	return list, true
}

// parseKey reads an item's key at the beginning of a path: [name="app",port=80], or [="value"],
// which it returns under the empty name.
func parseKey(path string) (key map[string]any, rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, "[")
	key = map[string]any{}
	for ok {
		var name, text string
		if name, rest, ok = strings.Cut(rest, "="); !ok {
			break
		}
		if text, rest, ok = parseScalar(rest); !ok {
			break
		}
		key[name] = decode(text)
		if after, isEnd := strings.CutPrefix(rest, "]"); isEnd {
			return key, after, true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return nil, "", false
}

// parseScalar reads a value in JSON at the beginning of text. Texts may hold any character.
func parseScalar(text string) (scalar, rest string, ok bool) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		return quoted, text[len(quoted):], true
	}
	end := strings.IndexAny(text, ",]")
	if end <= 0 {
		return "", "", false
	}
	return text[:end], text[end:], true
}

// Legible returns the API server's name of a field as people read it: without the leading dot, and
// without quotes in keys. If masked is set it shows no key of an item.
func Legible(name string, masked bool) string {
	var b strings.Builder
	for rest := strings.TrimPrefix(name, "."); rest != ""; {
		if key, after, ok := parseKey(rest); ok {
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
