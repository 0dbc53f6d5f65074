// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// opApply is the operation of server-side apply in managedFields.
const opApply = "Apply"

// entry is one of an object's managedFields.
type entry map[string]any

// text returns a field of the entry, or "" if it has none of that name.
func (e entry) text(key string) string {
	text, _ := e[key].(string)
	return text
}

func (e entry) manager() string     { return e.text("manager") }
func (e entry) operation() string   { return e.text("operation") }
func (e entry) apiVersion() string  { return e.text("apiVersion") }
func (e entry) subresource() string { return e.text("subresource") }
func (e entry) owned() tree         { return child(tree(e), "fieldsV1") }

// isOurs reports whether this is the one entry with the fields that Leat has applied. Leat's other
// requests have entries of their own, which count as others'.
func (e entry) isOurs() bool {
	return e.manager() == Manager && e.operation() == opApply && e.subresource() == ""
}

// managedFields returns the list of an object's entries as it is.
func managedFields(o *unstructured.Unstructured) []any {
	if o == nil {
		return nil
	}
	metadata, _ := o.Object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	return list
}

// entriesOf returns an object's managedFields.
func entriesOf(o *unstructured.Unstructured) []entry {
	list := managedFields(o)
	entries := make([]entry, 0, len(list))
	for _, item := range list {
		if e, ok := item.(map[string]any); ok {
			entries = append(entries, e)
		}
	}
	return entries
}

// ownEntry returns Leat's entry and its position, or -1 if Leat has no entry.
func ownEntry(o *unstructured.Unstructured) (int, entry) {
	for i, item := range managedFields(o) {
		if e, ok := item.(map[string]any); ok && entry(e).isOurs() {
			return i, e
		}
	}
	return -1, nil
}

// owners returns the fields that Leat has applied, and the fields that all other entries own.
func owners(o *unstructured.Unstructured) (ours, theirs tree) {
	for _, e := range entriesOf(o) {
		if e.isOurs() {
			ours = e.owned()
		} else {
			theirs = union(theirs, e.owned())
		}
	}
	return ours, theirs
}

// place is one place in an object: its value in the manifest and in the cluster, and its owners.
type place struct {
	wanted, live any // nil: nothing is there
	ours, theirs tree
	isPart       bool // something around the place is owned as a whole
}

// field returns the place of a field in a place that is a map.
func (at place) field(name string) place {
	wanted, _ := at.wanted.(map[string]any)
	live, _ := at.live.(map[string]any)
	return at.below(fieldPrefix+name, wanted[name], live[name])
}

// below returns the place of a field or an item by its name in trees.
func (at place) below(name string, wanted, live any) place {
	return place{wanted: wanted, live: live, ours: child(at.ours, name), theirs: child(at.theirs, name)}
}
