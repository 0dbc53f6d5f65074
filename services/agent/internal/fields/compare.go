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
	isSecret := live.GetKind() == "Secret" && live.GetAPIVersion() == "v1"
	c := comparison{claims: claimsOf(live), spell: func(key map[string]any) string { return bracket(key, isSecret) }}
	var found []Change
	c.note = func(at trail, p place) {
		change := Change{Path: strings.TrimPrefix(at.path, "."), Manager: c.owner(at.names), Old: excerpt(p.wanted), New: excerpt(p.live)}
		if isSecret {
			change.Old, change.New = mask(p.wanted), mask(p.live)
		}
		found = append(found, change)
		c.isFull = len(found) == MaxChanges
	}
	c.compare(live, wanted)
	return found
}

// written returns the fields of an object that people and tools write.
func written(o *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(o.Object)
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(fields, name)
	}
	all, _ := fields["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, name := range []string{"annotations", "finalizers", "labels", "ownerReferences"} {
		if value, ok := all[name]; ok {
			kept[name] = value
		}
	}
	fields["metadata"] = kept
	return fields
}

// claim is an entry of managedFields with what a comparison needs of it.
type claim struct {
	manager, operation, subresource, time string
	isOurs                                bool
	fields                                tree
}

// claimsOf returns the claims on fields of an object.
func claimsOf(o *unstructured.Unstructured) []claim {
	var claims []claim
	for _, e := range entriesOf(o) {
		claims = append(claims, claim{e.manager(), e.operation(), e.subresource(), e.text("time"), e.isOurs(), e.owned()})
	}
	return claims
}

// isOf reports whether both claims are of one manager, in one way.
func (c claim) isOf(other claim) bool {
	return c.manager == other.manager && c.operation == other.operation && c.subresource == other.subresource
}

// comparison compares a live object with a wanted one. It is for one goroutine.
type comparison struct {
	claims []claim // on the live object
	// isMutual compares fields and items that the live object alone has, too.
	isMutual bool
	// spell writes the key of an item in a path.
	spell func(key map[string]any) string
	// note is called with each place that differs, and isFull ends that.
	note   func(at trail, p place)
	isFull bool
}

// compare compares what people and tools write.
func (c *comparison) compare(live, wanted *unstructured.Unstructured) {
	p := place{wanted: written(wanted), live: written(live)}
	for _, one := range c.claims {
		if one.isOurs {
			p.ours = one.fields
		} else {
			p.theirs = union(p.theirs, one.fields)
		}
	}
	c.fields(trail{}, p)
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
	if p.wanted == nil && !c.isMutual || c.isFull || isEqual(p) {
		return
	}
	switch wanted := p.wanted.(type) {
	case map[string]any:
		if _, ok := p.live.(map[string]any); ok {
			c.fields(at, p)
			return
		}
	case []any:
		if live, ok := p.live.([]any); ok && c.items(at, p, wanted, live) {
			return
		}
	}
	c.note(at, p)
}

// fields compares maps by the fields of the manifest's. Fields that others have added do not count, unless the
// comparison is mutual.
func (c *comparison) fields(at trail, p place) {
	wanted, _ := p.wanted.(map[string]any)
	if live, _ := p.live.(map[string]any); c.isMutual {
		wanted = maps.Clone(wanted)
		for name := range live {
			if _, isWanted := wanted[name]; !isWanted {
				wanted[name] = nil
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		c.value(at.to("."+name, fieldPrefix+name), p.field(name))
	}
}

// items compares lists item by item. It reports false, and compares nothing, if an item of the
// manifest has neither an owned key nor a name nor an owned value: such a list changes as a whole.
func (c *comparison) items(at trail, p place, wanted, live []any) bool {
	known := keys(p.ours, p.theirs)
	if !c.isNamed(wanted, known, p.ours) || c.isMutual && !c.isNamed(live, known, p.ours) {
		return false
	}
	seen := map[int]bool{}
	for _, item := range wanted {
		name, key := keyOf(item, known)
		if key == nil {
			continue // a value that Leat owns is there
		}
		here := p.below(name, item, nil)
		if i := find(live, key); i >= 0 {
			here.live, seen[i] = live[i], true
		}
		c.value(at.to(c.spell(key), name), here)
	}
	for i, item := range live {
		if name, key := keyOf(item, known); c.isMutual && !seen[i] {
			c.value(at.to(c.spell(key), name), p.below(name, nil, item))
		}
	}
	return true
}

// isNamed reports whether every item can be told from the others. A value that Leat owns is told by itself; in a mutual
// comparison it has no counterpart, so a list with values changes as a whole.
func (c *comparison) isNamed(items []any, known map[string]map[string]any, ours tree) bool {
	for _, item := range items {
		if _, key := keyOf(item, known); key == nil && (c.isMutual || nameOfValue(ours, item) == "") {
			return false
		}
	}
	return true
}

// keyOf returns the name of an item in trees and its key, or nil if it has neither a key nor a name.
func keyOf(item any, known map[string]map[string]any) (name string, key map[string]any) {
	if name = nameOf(item, known); name != "" {
		return name, known[name]
	}
	return "", nameKey(item)
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
	for _, e := range c.claims {
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

// excerpt returns a value as people read it, cut to MaxText bytes.
func excerpt(value any) string { return cutTo(value, MaxText) }

// cutTo returns a value as people read it, cut at the end of a character to so many bytes.
func cutTo(value any, most int) string {
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
	if len(whole) <= most {
		return whole
	}
	const more = "…"
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(whole[end]) {
		end--
	}
	return whole[:end] + more
}
