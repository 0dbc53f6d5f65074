// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Index maps keys to values in little memory, because an agent may have many thousands. It keeps
// entries in the order of their keys, and stores what neighbours have in common once. To put a key
// into the middle moves all later entries. The zero Index is empty and ready to use, and a nil one
// can be read. It is not safe for concurrent use.
type Index[V any] struct {
	entries []*entry[V]
}

type entry[V any] struct {
	place *place
	name  string
	value V
}

// place is the part of a key that many objects share.
type place struct {
	group, kind, namespace string
}

func (e *entry[V]) key() Key {
	return Key{Group: e.place.group, Kind: e.place.kind, Namespace: e.place.namespace, Name: e.name}
}

func (e *entry[V]) compare(k Key) int {
	return cmp.Or(
		strings.Compare(e.place.group, k.Group),
		strings.Compare(e.place.kind, k.Kind),
		strings.Compare(e.place.namespace, k.Namespace),
		strings.Compare(e.name, k.Name),
	)
}

func (x *Index[V]) find(k Key) (int, bool) {
	if x == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(x.entries, k, (*entry[V]).compare)
}

// At returns the value of a key, to be read or changed in place, or nil if the key is missing.
// Values of a cloned Index must not be changed.
func (x *Index[V]) At(k Key) *V {
	at, found := x.find(k)
	if !found {
		return nil
	}
	return &x.entries[at].value
}

// Put sets the value of a key. It does not copy the name, which may keep a longer text in memory.
func (x *Index[V]) Put(k Key, value V) *V {
	at, found := x.find(k)
	if found {
		old := x.entries[at]
		x.entries[at] = &entry[V]{place: old.place, name: old.name, value: value}
		return &x.entries[at].value
	}
	x.entries = slices.Insert(x.entries, at, &entry[V]{place: x.placeOf(k, at), name: k.Name, value: value})
	return &x.entries[at].value
}

// placeOf returns the place of a key, shared with a neighbour if that has the same.
func (x *Index[V]) placeOf(k Key, at int) *place {
	p := place{group: k.Group, kind: k.Kind, namespace: k.Namespace}
	for _, e := range x.entries[max(0, at-1):min(len(x.entries), at+1)] {
		if *e.place == p {
			return e.place
		}
	}
	return &place{group: strings.Clone(k.Group), kind: strings.Clone(k.Kind), namespace: strings.Clone(k.Namespace)}
}

// Remove removes a key. A missing key is not an error.
func (x *Index[V]) Remove(k Key) {
	if at, found := x.find(k); found {
		x.entries = slices.Delete(x.entries, at, at+1)
	}
}

// RemoveFunc removes every key for which out reports true. Out must not keep the value.
func (x *Index[V]) RemoveFunc(out func(Key, *V) bool) {
	x.entries = slices.DeleteFunc(x.entries, func(e *entry[V]) bool { return out(e.key(), &e.value) })
}

// Len returns the number of keys.
func (x *Index[V]) Len() int {
	if x == nil {
		return 0
	}
	return len(x.entries)
}

// All iterates over all keys in order.
func (x *Index[V]) All() iter.Seq2[Key, *V] {
	return func(yield func(Key, *V) bool) {
		if x == nil {
			return
		}
		for _, e := range x.entries {
			if !yield(e.key(), &e.value) {
				return
			}
		}
	}
}

// Clone returns a copy, in which other values can be put.
func (x *Index[V]) Clone() Index[V] {
	return Index[V]{entries: slices.Clone(x.entries)}
}
