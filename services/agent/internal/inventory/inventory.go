// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory remembers which objects of a cluster a service has made, and decides which of them may go.
//
// An inventory is the only ground on which the agent ever deletes: an object that is not in it is never touched, and one
// that is in it is deleted only under the UID that was recorded, so that an object which somebody else created under the
// same name in the meantime survives.
package inventory

import (
	"slices"
	"strings"
)

// Object is one object of a service.
type Object struct {
	Ref

	// UID is what the cluster called this very object. Empty between the moment the agent decided to apply it and the
	// cluster's answer.
	UID string
	// Wave is the place of the object in the order of applying: those with a smaller one come before. Deleting goes the
	// other way round.
	Wave int
	// Wish is what the manifest that was last applied says about the object's deletion.
	Wish Wish
	// Agreed tells that a person has agreed to the object's deletion.
	Agreed bool
	// Counted tells that the object is among those that the record's Pruned counts, though it is still there.
	Counted bool
}

// Set is a set of objects by key. The zero Set is empty and ready to use. It is not safe for concurrent use; Clone it.
type Set struct {
	objects *Index[compact] // nil: empty
}

// NewSet returns the set of the given objects; of two with the same key the later one counts.
func NewSet(objects ...Object) Set {
	var s Set
	for _, o := range objects {
		s.Put(o)
	}
	return s
}

// Put adds o, or replaces the object with its key.
func (s *Set) Put(o Object) {
	if s.objects == nil {
		s.objects = &Index[compact]{}
	}
	o.Name = strings.Clone(o.Name) // it may be part of a long text
	s.objects.Put(o.Key, compactOf(o))
}

// Remove takes the object with that key out, if it is there.
func (s *Set) Remove(k Key) {
	s.objects.Remove(k)
}

// Get returns the object with that key.
func (s Set) Get(k Key) (Object, bool) {
	at, found := s.objects.find(k)
	if !found {
		return Object{}, false
	}
	e := s.objects.entries[at]
	return e.value.object(e.key()), true // with the name that the set keeps anyway
}

// Len returns the number of objects.
func (s Set) Len() int {
	return s.objects.Len()
}

// Objects lists the objects by group, kind, namespace, name.
func (s Set) Objects() []Object {
	all := slices.Grow([]Object(nil), s.Len())
	for k, c := range s.objects.All() {
		all = append(all, c.object(k))
	}
	return all
}

// Minus lists the objects of s whose keys other does not hold, in order.
func (s Set) Minus(other Set) []Object {
	var rest []Object
	for k, c := range s.objects.All() {
		if other.objects.At(k) == nil {
			rest = append(rest, c.object(k))
		}
	}
	return rest
}

// Clone returns an independent copy.
func (s Set) Clone() Set {
	if s.objects == nil {
		return Set{}
	}
	clone := s.objects.Clone()
	return Set{objects: &clone}
}

// Equal tells whether both sets hold the same objects, in every respect.
func (s Set) Equal(other Set) bool {
	return slices.Equal(s.Objects(), other.Objects())
}
