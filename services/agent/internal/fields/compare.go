// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// MaxChanges bounds the changes that Compare returns, and MaxText the bytes of a value in them.
const (
	MaxChanges = 50
	MaxText    = 256
)

// Change is a field whose value in the cluster is not the wanted one.
type Change struct {
	// Path is the field as people read it: spec.template.spec.containers[name=app].image.
	Path string
	// Old is the wanted value and New the one in the cluster, or "" if it does not exist. Texts are
	// written as they are, other values in JSON.
	Old, New string
	// Manager owns the field in the cluster. It is "" if no manager does, for example after its
	// removal.
	Manager string
}

// Compare returns the fields of wanted that differ in live, the object in the cluster with its
// managedFields, ordered by path. Fields that wanted does not name do not count, nor do fields that
// the API server keeps. The values of Secrets are always shown as "(masked)".
func Compare(live, wanted *unstructured.Unstructured) []Change {
	ours, theirs := owners(live)
	c := comparison{isSecret: live.GetKind() == "Secret" && live.GetAPIVersion() == "v1"}
	for _, e := range entriesOf(live) {
		c.entries = append(c.entries, claim{manager: e.manager(), time: e.text("time"), fields: e.owned()})
	}
	fields := maps.Clone(wanted.Object)
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(fields, name)
	}
	if all, ok := fields["metadata"].(map[string]any); ok {
		written := map[string]any{}
		for _, name := range []string{"annotations", "finalizers", "labels", "ownerReferences"} {
			written[name] = all[name]
		}
		fields["metadata"] = written
	}
	c.fields(trail{}, place{wanted: fields, live: live.Object, ours: ours, theirs: theirs}, fields)
	return c.found
}

// claim is the part of an entry with the manager and the time of a field.
type claim struct {
	manager, time string
	fields        tree
}

// comparison collects changes.
type comparison struct {
	entries  []claim
	isSecret bool
	found    []Change
}

// trail is the way to a field, for people and in a tree.
type trail struct {
	path  string // with a leading dot
	names []string
}

// to returns the trail of a part. Trails of different parts share no memory that is written.
func (t trail) to(path, name string) trail {
	return trail{t.path + path, append(t.names[:len(t.names):len(t.names)], name)}
}

// value adds the changes at a place that the manifest names. Maps, and lists whose items have
// names, are compared part by part, and other values as a whole.
func (c *comparison) value(at trail, p place) {
	if p.wanted == nil || len(c.found) == MaxChanges || isEqual(p) {
		return
	}
	switch wanted := p.wanted.(type) {
	case map[string]any:
		if _, ok := p.live.(map[string]any); ok {
			c.fields(at, p, wanted)
			return
		}
	case []any:
		if live, ok := p.live.([]any); ok && c.items(at, p, wanted, live) {
			return
		}
	}
	c.add(at, p)
}

// fields compares maps by the fields of the manifest's. Fields that others have added do not count.
func (c *comparison) fields(at trail, p place, wanted map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		c.value(at.to("."+name, fieldPrefix+name), p.field(name))
	}
}

// items compares lists item by item. It reports false, and compares nothing, if an item of the
// manifest has neither an owned key nor a name nor an owned value: such a list changes as a whole.
func (c *comparison) items(at trail, p place, wanted, live []any) bool {
	known := keys(p.ours, p.theirs)
	for _, item := range wanted {
		if nameOf(item, known) == "" && nameKey(item) == nil && nameOfValue(p.ours, item) == "" {
			return false
		}
	}
	for _, item := range wanted {
		name := nameOf(item, known)
		key := known[name]
		if name == "" {
			key = nameKey(item)
		}
		if key == nil {
			continue // a value that Leat owns is there
		}
		here := p.below(name, item, nil)
		if i := find(live, key); i >= 0 {
			here.live = live[i]
		}
		c.value(at.to(bracket(key, c.isSecret), name), here)
	}
	return true
}

// nameKey returns the key of an item that has a name, or nil.
func nameKey(item any) map[string]any {
	fields, _ := item.(map[string]any)
	if name, ok := fields["name"].(string); ok {
		return map[string]any{"name": name}
	}
	return nil
}

// isEqual reports whether the values are the same. The API server writes quantities in its own way:
// as long as the field is Leat's no one has changed it, and "1000m" may have become "1".
func isEqual(p place) bool {
	if equality.Semantic.DeepEqual(p.wanted, p.live) || isSame(p.wanted, p.live) {
		return true
	}
	switch p.wanted.(type) {
	case map[string]any, []any:
		return false
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
	change := Change{
		Path: strings.TrimPrefix(at.path, "."), Manager: c.owner(at.names),
		Old: excerpt(p.wanted), New: excerpt(p.live),
	}
	if c.isSecret {
		change.Old, change.New = mask(p.wanted), mask(p.live)
	}
	c.found = append(c.found, change)
}

// mask shows only whether there is a value.
func mask(value any) string {
	if value == nil {
		return ""
	}
	return "(masked)"
}

// owner returns the manager that set a field last, and Leat only if there is no other.
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

// reaches reports whether the tree owns the field at the end of names, something in it, or
// something around it.
func reaches(t tree, names []string) bool {
	for _, name := range names {
		if len(t) == 0 {
			return t != nil
		}
		t = child(t, name)
	}
	return t != nil
}

// excerpt returns a value as people read it, cut at the end of a character to MaxText bytes.
func excerpt(value any) string {
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
