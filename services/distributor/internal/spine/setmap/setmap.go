// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package setmap maps keys to sets of values.
package setmap

// Map holds a set of values for each key. A key whose set becomes empty is removed. A Map is made
// like any other map, and like others it is not safe for concurrent use.
type Map[K, V comparable] map[K]map[V]struct{}

// Add adds a value to the set of a key.
func (m Map[K, V]) Add(key K, value V) {
	set, ok := m[key]
	if !ok {
		set = map[V]struct{}{}
		m[key] = set
	}
	set[value] = struct{}{}
}

// Remove removes a value from the set of a key. It does nothing if the value is not there.
func (m Map[K, V]) Remove(key K, value V) {
	delete(m[key], value)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}
