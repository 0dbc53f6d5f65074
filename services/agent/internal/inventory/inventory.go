// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory records which objects of a cluster a service has created, and decides which of
// them may be deleted.
//
// An inventory is the only ground on which the agent ever deletes. It never touches an object that
// is not in an inventory. It deletes an object only under the recorded UID, so an object that
// another client created under the same name in the meantime survives.
package inventory

import (
	"slices"
	"strings"
)

// Set is a set of objects by key. The zero Set is empty and ready to use. It is not safe for
// concurrent use; use Clone.
type Set struct {
	objects *Index[compact] // nil: empty
}

// NewSet returns the set of the given objects. Of two with the same key it keeps the later one.
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

// Remove removes the object with that key. A missing object is not an error.
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

// Objects returns the objects sorted by group, kind, namespace and name.
func (s Set) Objects() []Object {
	all := slices.Grow([]Object(nil), s.Len())
	for k, c := range s.objects.All() {
		all = append(all, c.object(k))
	}
	return all
}

// Minus returns the objects of s whose keys are not in other, in order.
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

// Equal reports whether both sets hold the same objects, in every respect.
func (s Set) Equal(other Set) bool {
	return slices.Equal(s.Objects(), other.Objects())
}
