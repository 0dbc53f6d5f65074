// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// MaxDifferences bounds the differences of one object.
	MaxDifferences = 200
	// MaxValue bounds the bytes of a value or a path in them.
	MaxValue = 1 << 10
	// maxOwners bounds the owners of one field.
	maxOwners = 10
)

// Difference is a field that differs between two states of an object.
type Difference struct {
	// Path is the field as the API server writes it: .spec.template.spec.containers[name="app"].image.
	Path string
	// Before and After are the values, or "" if there is none. Texts are written as they are, and an empty text
	// and other values in JSON.
	Before, After string
	// Owners own the field before, or a part of it. The one whose fields changed last is first.
	Owners []Owner
	// IsTaken means that Leat takes the field from an owner.
	IsTaken bool
	// Rule is the rule that leaves the field to others: a pointer, or "manager PATTERN". It is "" if none does.
	Rule string
}

// Owner is a manager of fields.
type Owner struct {
	Name, Operation string
	// Time is when it last changed one of its fields. Zero: that is not recorded.
	Time time.Time
}

// Ownership is who owns the fields of an object before and after a change. It shares no value with the objects, so
// these may be masked before they are compared. It is safe for concurrent use.
type Ownership struct {
	before, after []claim
}

// OwnershipOf returns the ownership that the managedFields of both states record. Either may be nil.
func OwnershipOf(before, after *unstructured.Unstructured) Ownership {
	return Ownership{claimsOf(before), claimsOf(after)}
}

// Differences returns the fields that differ between two states of an object, by path, at most MaxDifferences, and how
// many more differ. Fields that the API server keeps do not count.
func (w Ownership) Differences(before, after *unstructured.Unstructured) (found []Difference, omitted int) {
	c := w.comparison(true)
	c.note = func(at trail, p place) {
		if len(found) == MaxDifferences {
			omitted++
			return
		}
		owners := w.owners(at.names)
		found = append(found, Difference{
			Path: cutTo(at.path, MaxValue), Before: spellValue(p.live), After: spellValue(p.wanted), Owners: spellOwners(owners), IsTaken: w.isTaken(owners, at.names),
		})
	}
	c.compare(before, after)
	return found, omitted
}

// Ignored returns the fields of a manifest that differ in the cluster and that are ignored, by path, at most
// MaxDifferences, and how many more there are. The masked objects are what the values come from. Before is of the
// cluster, and After of the manifest.
func (w Ownership) Ignored(ignored Ignored, manifest, maskedLive, maskedManifest *unstructured.Unstructured) (found []Difference, omitted int) {
	c := w.comparison(false)
	c.note = func(at trail, p place) {
		owners := w.owners(at.names)
		rule := ignored.rule(manifest, at.path, owners)
		switch {
		case rule == "":
		case len(found) == MaxDifferences:
			omitted++
		default:
			found = append(found, Difference{
				Path: cutTo(at.path, MaxValue), Before: spellValue(p.live), After: spellValue(p.wanted), Owners: spellOwners(owners), Rule: rule,
			})
		}
	}
	c.compare(maskedLive, maskedManifest)
	return found, omitted
}

// rule returns the rule that ignores a field of a manifest, or "".
func (i Ignored) rule(manifest *unstructured.Unstructured, path string, owners []claim) string {
	pointing := Ignored{texts: i.texts, pointers: i.pointers}
	if len(i.pointers) > 0 && pointing.Field(manifest, path) {
		for n := range i.pointers {
			if (Ignored{pointers: i.pointers[n : n+1]}).Field(manifest, path) {
				return i.texts[n]
			}
		}
	}
	for _, owner := range owners {
		if n := i.pattern(owner.manager); !owner.isOurs && n >= 0 {
			return "manager " + i.managers[n]
		}
	}
	return ""
}

// comparison returns one that names fields as the API server does.
func (w Ownership) comparison(isMutual bool) *comparison {
	return &comparison{isMutual: isMutual, spell: quoted, claims: w.before}
}

// owners returns the claims on a field before the change. The one that changed last is first.
func (w Ownership) owners(names []string) []claim {
	var found []claim
	for _, one := range w.before {
		if reaches(one.fields, names) {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b claim) int { return cmp.Compare(b.time, a.time) })
	return found
}

// isTaken reports whether one of the owners loses the field, and Leat has it then.
func (w Ownership) isTaken(owners []claim, names []string) bool {
	isOurs, isLost := false, false
	for _, one := range w.after {
		isOurs = isOurs || one.isOurs && reaches(one.fields, names)
	}
	for _, owner := range owners {
		isLost = isLost || !owner.isOurs && !slices.ContainsFunc(w.after, func(one claim) bool {
			return one.isOf(owner) && reaches(one.fields, names)
		})
	}
	return isOurs && isLost
}

// spellValue returns a value as people read it, or "" if there is none.
func spellValue(value any) string {
	if value == "" {
		return `""`
	}
	return cutTo(value, MaxValue)
}

func spellOwners(claims []claim) []Owner {
	var owners []Owner
	for _, one := range claims[:min(len(claims), maxOwners)] {
		at, _ := time.Parse(time.RFC3339, one.time) // zero if it is not recorded
		owners = append(owners, Owner{Name: cutTo(one.manager, MaxText), Operation: cutTo(one.operation, MaxText), Time: at})
	}
	return owners
}

// quoted spells the key of an item as the API server does.
func quoted(key map[string]any) string {
	var conditions []string
	for _, name := range slices.Sorted(maps.Keys(key)) {
		value, err := json.Marshal(key[name])
		if err != nil { // a key holds scalars
			continue
		}
		conditions = append(conditions, name+"="+string(value))
	}
	return "[" + strings.Join(conditions, ",") + "]"
}
