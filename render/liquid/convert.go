// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/leatdev/leat/render"
)

const maxItemsLimit = render.LimitValues

// list returns the values in the order of their names.
func (f fields) list() []any {
	all := make([]any, 0, len(f))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		all = append(all, f[name])
	}
	return all
}

// conversion copies values between templates and filters. Values that hold one another many times,
// and would print as gigabytes, exceed its bound on items.
type conversion struct {
	bounds *bounds
	items  int
	bytes  int64
	err    error
}

// count counts a value, and reports whether the conversion continues.
func (c *conversion) count(depth int) bool {
	if c.err != nil {
		return false
	}
	if c.items++; c.items > maxItems {
		c.err = c.bounds.exceed(maxItemsLimit, "a filter takes or makes more than %d values", maxItems)
	} else if depth > maxDepth {
		c.err = c.bounds.exceed(render.LimitDepth, "maps and lists are nested more than %d deep", maxDepth)
	}
	return c.err == nil
}

// plain returns a copy of a value with maps of Go's own types, as filters of Sprig expect.
func (c *conversion) plain(value any, depth int) any {
	if !c.count(depth) {
		return nil
	}
	switch v := value.(type) {
	case *lazy:
		return c.plain(v.read(), depth+1)
	case fields:
		named := make(map[string]any, len(v))
		for name, value := range v {
			named[name] = c.plain(value, depth+1)
		}
		return named
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = c.plain(item, depth+1)
		}
		return items
	default:
		return value
	}
}

// ordered returns a value with maps that iterate in order, and counts its texts.
func (c *conversion) ordered(value any, depth int) any {
	if !c.count(depth) {
		return nil
	}
	switch v := value.(type) {
	case string:
		c.bytes += int64(len(v))
		return v
	case fields:
		for _, value := range v {
			c.ordered(value, depth+1)
		}
		return v
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = c.ordered(item, depth+1)
		}
		return items
	case []string:
		for _, item := range v {
			c.ordered(item, depth+1)
		}
		return v
	}
	if named := reflect.ValueOf(value); named.Kind() == reflect.Map {
		all := make(fields, named.Len())
		for _, name := range named.MapKeys() {
			all[fmt.Sprint(name.Interface())] = c.ordered(named.MapIndex(name).Interface(), depth+1)
		}
		return all
	}
	return value
}

// sizeOfResult estimates the bytes of the results that may be far larger than the arguments of their
// filters.
func sizeOfResult(filter string, args []any) int64 {
	text := func(i int) string {
		if i >= len(args) {
			return ""
		}
		t, _ := args[i].(string)
		return t
	}
	number := func(i int) int64 {
		if i >= len(args) {
			return 0
		}
		n := reflect.ValueOf(args[i])
		switch {
		case n.IsValid() && n.CanInt():
			return min(max(n.Int(), 0), 1<<40)
		case n.IsValid() && n.CanFloat():
			return int64(min(max(n.Float(), 0), 1<<40))
		default:
			return 0
		}
	}
	length := func(i int) int64 { return int64(len(text(i))) }
	switch filter {
	case "repeat":
		return number(0) * length(1)
	case "indent", "nindent":
		return number(1) * int64(strings.Count(text(0), "\n")+1)
	case "replace":
		return int64(strings.Count(text(0), text(1))) * length(2)
	case "regexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral":
		return (length(1) + 1) * length(2)
	case "wrapWith":
		return (length(2) + 1) * length(1)
	case "until":
		return number(0)
	case "untilStep", "seq":
		return number(0) + number(1) + number(2)
	case "join":
		if len(args) > 0 {
			if items := reflect.ValueOf(args[0]); items.IsValid() && items.Kind() == reflect.Slice {
				return int64(items.Len()) * length(1)
			}
		}
	}
	return 0
}
