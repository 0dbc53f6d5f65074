// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fields knows who owns the fields of an object, and what of a manifest may be applied without taking them away
// from others: which fields are ignored, which conflicts yield, and what a former deployer's fields become.
//
// Ownership is read from metadata.managedFields as the API server sends it, a tree of maps in the notation of FieldsV1, and
// never turned into another form: few objects have rules, and for the others nothing is read at all.
package fields

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Manager is Leat's name in managedFields.
const Manager = "leat"

// The operations of managedFields.
const (
	opApply  = "Apply"
	opUpdate = "Update"
)

// tree is a set of fields in the notation of FieldsV1: "f:" children are fields of a map, "k:" are items of a list by their
// keys, "v:" are items of a set, and "." is the node itself. A node without children is a leaf, and nil owns nothing. Trees
// are shared with the objects they come from, and are never changed.
type tree = map[string]any

// self is the child that makes a node with children a member of the set, too.
const self = "."

// child returns a node's child, nil where it has none.
func child(t tree, key string) tree {
	c, _ := t[key].(map[string]any)
	return c
}

// isLeaf tells a node that is owned as a whole.
func isLeaf(t tree) bool {
	return t != nil && len(t) == 0
}

// union returns what is in a, in b, or in both.
func union(a, b tree) tree {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case len(a) == 0 && len(b) == 0:
		return a
	}
	all := make(tree, len(a)+len(b))
	maps.Copy(all, a)
	for key := range b {
		all[key] = union(child(a, key), child(b, key))
	}
	if len(a) == 0 || len(b) == 0 {
		all[self] = tree{}
	}
	return all
}

// entry is one of an object's managedFields.
type entry map[string]any

func (e entry) text(key string) string {
	text, _ := e[key].(string)
	return text
}

func (e entry) manager() string     { return e.text("manager") }
func (e entry) operation() string   { return e.text("operation") }
func (e entry) apiVersion() string  { return e.text("apiVersion") }
func (e entry) subresource() string { return e.text("subresource") }
func (e entry) owned() tree         { return child(tree(e), "fieldsV1") }

// ours tells the one entry that holds what Leat applied.
func (e entry) ours() bool {
	return e.manager() == Manager && e.operation() == opApply && e.subresource() == ""
}

// entriesOf lists an object's managedFields.
func entriesOf(o *unstructured.Unstructured) []entry {
	if o == nil {
		return nil
	}
	metadata, _ := o.Object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	entries := make([]entry, 0, len(list))
	for _, item := range list {
		if e, ok := item.(map[string]any); ok {
			entries = append(entries, e)
		}
	}
	return entries
}

// owners returns what Leat has applied, and what everybody else has set, Leat's other requests included.
func owners(o *unstructured.Unstructured) (ours, theirs tree) {
	for _, e := range entriesOf(o) {
		if e.ours() {
			ours = e.owned()
		} else {
			theirs = union(theirs, e.owned())
		}
	}
	return ours, theirs
}
