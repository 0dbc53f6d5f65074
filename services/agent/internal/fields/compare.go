// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// MaxChanges bounds what Compare returns, and MaxText the bytes of a value in it.
const (
	MaxChanges = 50
	MaxText    = 256
)

// Change is a field whose value in the cluster is not the one that is wanted.
type Change struct {
	// Path is the field as people read it: spec.template.spec.containers[name=app].image.
	Path string
	// Old is the value that is wanted, New the one in the cluster; "" where there is none. Texts stand for themselves, all
	// else in JSON.
	Old, New string
	// Manager is who owns the field in the cluster; "" where nobody does, as when it was removed.
	Manager string
}

// Compare lists the fields of wanted that are otherwise in live, the object in the cluster with its managedFields, by path. What
// wanted does not name does not count. The values of Secrets are never shown: they are all "(masked)".
func Compare(live, wanted *unstructured.Unstructured) []Change {
	ours, theirs := owners(live)
	c := comparison{secret: live.GetKind() == "Secret" && live.GetAPIVersion() == "v1"}
	for _, e := range entriesOf(live) {
		c.entries = append(c.entries, claim{manager: e.manager(), time: e.text("time"), fields: e.owned()})
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Object)) {
		switch name {
		case "apiVersion", "kind", "status":
		case "metadata":
			c.metadata(wanted.Object[name], live.Object[name], child(ours, "f:metadata"), child(theirs, "f:metadata"))
		default:
			key := fieldPrefix + name
			c.value(trail{path: name, names: []string{key}}, place{wanted: wanted.Object[name], live: live.Object[name], ours: child(ours, key), theirs: child(theirs, key)})
		}
	}
	return c.found
}

// claim is what one manager owns.
type claim struct {
	manager, time string
	fields        tree
}

type comparison struct {
	entries []claim
	secret  bool
	found   []Change
}

// trail is the way to a field, for people and in a tree.
type trail struct {
	path  string
	names []string
}

func (t trail) to(path, name string) trail {
	return trail{t.path + path, append(t.names[:len(t.names):len(t.names)], name)}
}

// metadata compares what people write into it.
func (c *comparison) metadata(wanted, live any, ours, theirs tree) {
	fields, _ := wanted.(map[string]any)
	there, _ := live.(map[string]any)
	for _, name := range []string{"annotations", "finalizers", "labels", "ownerReferences"} {
		key := fieldPrefix + name
		c.value(trail{path: "metadata." + name, names: []string{"f:metadata", key}},
			place{wanted: fields[name], live: there[name], ours: child(ours, key), theirs: child(theirs, key)})
	}
}

func (c *comparison) value(at trail, p place) {
	if p.wanted == nil || len(c.found) == MaxChanges || equal(p) {
		return
	}
	if wanted, ok := p.wanted.(map[string]any); ok {
		if live, ok := p.live.(map[string]any); ok {
			c.fields(at, p, wanted, live)
			return
		}
	}
	if wanted, ok := p.wanted.([]any); ok {
		if live, ok := p.live.([]any); ok && c.items(at, p, wanted, live) {
			return
		}
	}
	c.add(at, p)
}

func (c *comparison) fields(at trail, p place, wanted, live map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		key := fieldPrefix + name
		c.value(at.to("."+name, key), place{wanted: wanted[name], live: live[name], ours: child(p.ours, key), theirs: child(p.theirs, key)})
	}
}

// items compares lists item by item, where items have names. Others change as a whole: it reports false.
func (c *comparison) items(at trail, p place, wanted, live []any) bool {
	known := keys(p.ours, p.theirs)
	for _, item := range wanted {
		if nameOf(item, known) == "" && named(item) == nil && valueIn(p.ours, item) == "" {
			return false
		}
	}
	for _, item := range wanted {
		name := nameOf(item, known)
		key := known[name]
		if name == "" {
			key = named(item)
		}
		if key == nil { // of a set
			continue
		}
		there := any(nil)
		if i := find(live, key); i >= 0 {
			there = live[i]
		}
		c.value(at.to(bracket(key, c.secret), name), place{wanted: item, live: there, ours: child(p.ours, name), theirs: child(p.theirs, name)})
	}
	return true
}

// named is the key of an item that has a name.
func named(item any) map[string]any {
	fields, _ := item.(map[string]any)
	if name, ok := fields["name"].(string); ok {
		return map[string]any{"name": name}
	}
	return nil
}

// equal tells whether the values are the same. The API server writes quantities in its own way: as long as the field is ours
// nobody has changed it, and "1000m" may have become "1".
func equal(p place) bool {
	if equality.Semantic.DeepEqual(p.wanted, p.live) || same(p.wanted, p.live) {
		return true
	}
	if p.ours == nil {
		return false
	}
	wanted, err := resource.ParseQuantity(fmt.Sprint(p.wanted))
	if err != nil {
		return false
	}
	live, err := resource.ParseQuantity(fmt.Sprint(p.live))
	return err == nil && wanted.Cmp(live) == 0
}

func (c *comparison) add(at trail, p place) {
	change := Change{Path: at.path, Old: text(p.wanted), New: text(p.live), Manager: c.owner(at.names)}
	if c.secret {
		change.Old, change.New = mask(p.wanted), mask(p.live)
	}
	c.found = append(c.found, change)
}

func mask(value any) string {
	if value == nil {
		return ""
	}
	return "(masked)"
}

// owner is who has set a field last, Leat only where nobody else has.
func (c *comparison) owner(names []string) string {
	var best claim
	for _, e := range c.entries {
		if !reaches(e.fields, names) {
			continue
		}
		if best.fields == nil || best.manager == Manager || e.manager != Manager && e.time > best.time {
			best = e
		}
	}
	return best.manager
}

// reaches tells whether the tree owns what names lead to, something in it, or something that it lies in.
func reaches(t tree, names []string) bool {
	for _, name := range names {
		if len(t) == 0 {
			return t != nil
		}
		t = child(t, name)
	}
	return t != nil
}

// text is a value as people read it, shortened to MaxText bytes.
func text(value any) string {
	var whole string
	switch value := value.(type) {
	case nil:
	case string:
		whole = value
	case bool:
		whole = strconv.FormatBool(value)
	default:
		encoded, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		whole = string(bytes.TrimSpace(encoded))
	}
	if len(whole) <= MaxText {
		return whole
	}
	const more = "…"
	end := MaxText - len(more)
	for end > 0 && !utf8.RuneStart(whole[end]) {
		end--
	}
	return whole[:end] + more
}
