// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fields knows who owns the fields of an object, and which part of a manifest may be
// applied without taking fields away from their owners.
//
// It promises:
//
//   - [Ignored.Shape]: applying the shaped manifest changes no value of an ignored field, takes no
//     such field from its owner, and gives up none that only Leat owns.
//   - [Ignored.Strip]: a change of an ignored field never changes the fingerprint of the rest.
//   - [Settled]: if it reports true, applying the manifest changes neither values nor owners. If in
//     doubt it reports false, and the apply costs one request.
//   - [Without]: a manifest without the fields that conflict is applied without a conflict.
//   - [HandOver] and [Migrate]: every field keeps an owner, and fields of deployers become Leat's.
//   - No function changes its arguments. A result may share parts with them.
//
// The package has no state and asks no API server. It does not know the schema of a kind: which
// lists have keyed items it learns from the names that the API server gives their owners' fields.
//
// Ownership is read as the API server sends it in metadata.managedFields: a tree of maps in the
// notation of FieldsV1. [fieldpath.Set] is the same set in another form, and the oracle of the
// tests. It is not used here. Reading it takes three quarters of the time that Settled takes for
// all its work. It has neither an operation on values without a schema nor a parser for the paths
// in conflicts; these two are most of this package. docs/adr/0086 has the figures.
//
// [fieldpath.Set]: https://pkg.go.dev/sigs.k8s.io/structured-merge-diff/v6/fieldpath#Set
package fields

import "maps"

// Manager is Leat's name in managedFields.
const Manager = "leat"

// tree is a set of fields in the notation of FieldsV1: "f:" children are fields of a map, "k:" are
// items of a list by their keys, "v:" are items of a set, and "." is the node itself. A node
// without children is a leaf and is owned as a whole. Nil owns nothing. Trees are shared with the
// objects they come from, and are never changed.
type tree = map[string]any

// The prefixes of children in a tree.
const (
	fieldPrefix = "f:"
	keyPrefix   = "k:"
	valuePrefix = "v:"
)

// self is the child that makes a node with children a member of the set, too.
const self = "."

// child returns a node's child, or nil if it has none of that name.
func child(t tree, key string) tree {
	c, _ := t[key].(map[string]any)
	return c
}

// isLeaf reports whether a node is owned as a whole.
func isLeaf(t tree) bool {
	return t != nil && len(t) == 0
}

// union returns the fields that are in a, in b, or in both.
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

// replace returns a copy of the tree with another child in the place of that one, or without it if
// the other one is nil. A tree that loses its last child becomes nil: an empty one would own
// everything.
func replace(t tree, key string, with tree) tree {
	if _, isThere := t[key]; !isThere {
		return t
	}
	t = maps.Clone(t)
	delete(t, key)
	if with != nil {
		t[key] = with
	}
	if len(t) == 0 {
		return nil
	}
	return t
}
