// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import "sync"

// recent is a bounded memory of answers that never change. When it is full it forgets the older
// half at once: an entry that is asked for stays, and no list has to be kept. It may be used
// concurrently.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	limit      int // of each half
	young, old map[K]V
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{limit: max(limit/2, 1), young: map[K]V{}, old: map[K]V{}}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.putLocked(key, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putLocked(key, value)
}

func (r *recent[K, V]) putLocked(key K, value V) {
	if len(r.young) >= r.limit {
		r.old, r.young = r.young, make(map[K]V, r.limit/4)
	}
	r.young[key] = value
}
