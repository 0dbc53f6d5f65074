// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fanout tells many watchers that something changed, without ever waiting for one of them.
//
// The key of the changed thing travels, not its value: a watcher looks the value up when it gets to
// it, so a slow one sees the latest and skips what was in between. The keys that a watcher has not
// taken yet are a bounded set.
package fanout

import (
	"sync"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/setmap"
)

// DefaultLimit bounds the keys that wait for one watcher.
const DefaultLimit = 10_000

// Hub connects publishers to watchers. It is safe for concurrent use; make one with NewHub.
type Hub[K comparable] struct {
	limit int

	mu sync.RWMutex
	// byKey holds the watchers of single keys, all the watchers of every key.
	byKey setmap.Map[K, *Watcher[K]]
	all   map[*Watcher[K]]struct{}
}

// NewHub returns a Hub whose watchers hold at most limit keys each; zero means DefaultLimit.
func NewHub[K comparable](limit int) *Hub[K] {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Hub[K]{limit: limit, byKey: setmap.Map[K, *Watcher[K]]{}, all: map[*Watcher[K]]struct{}{}}
}

// Publish tells the watchers that the keys changed. It never blocks on a watcher.
func (h *Hub[K]) Publish(keys ...K) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, key := range keys {
		for w := range h.byKey[key] {
			w.add(key)
		}
		for w := range h.all {
			w.add(key)
		}
	}
}

// Watch returns a watcher of one key. Its owner closes it.
func (h *Hub[K]) Watch(key K) *Watcher[K] {
	w := newWatcher(h)
	w.only = &key
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byKey.Add(key, w)
	return w
}

// WatchAll returns a watcher of every key. Its owner closes it.
func (h *Hub[K]) WatchAll() *Watcher[K] {
	w := newWatcher(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[w] = struct{}{}
	return w
}

// Watchers returns how many watchers there are.
func (h *Hub[K]) Watchers() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := len(h.all)
	for _, set := range h.byKey {
		n += len(set)
	}
	return n
}

func (h *Hub[K]) remove(w *Watcher[K]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.only == nil {
		delete(h.all, w)
		return
	}
	h.byKey.Remove(*w.only, w)
}

// Watcher collects the keys that changed. Ready, Take and Close are for the one goroutine that owns
// it.
type Watcher[K comparable] struct {
	hub   *Hub[K]
	only  *K
	ready wake.Signal

	mu      sync.Mutex
	pending map[K]struct{}
	order   []K
	lagged  bool
}

func newWatcher[K comparable](h *Hub[K]) *Watcher[K] {
	return &Watcher[K]{hub: h, ready: wake.NewSignal(), pending: map[K]struct{}{}}
}

// Ready receives a value when there is something to take.
func (w *Watcher[K]) Ready() <-chan struct{} { return w.ready }

// Take returns the keys that changed since the last Take, each once, in the order of their first
// change. Lagged means that there were too many to hold: the keys are lost, and the owner has to
// read everything.
func (w *Watcher[K]) Take() (keys []K, lagged bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys, lagged = w.order, w.lagged
	w.order, w.lagged = nil, false
	clear(w.pending)
	return keys, lagged
}

// Close ends the watcher. Closing it again does nothing.
func (w *Watcher[K]) Close() { w.hub.remove(w) }

func (w *Watcher[K]) add(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, waits := w.pending[key]; waits {
		return
	}
	if len(w.order) >= w.hub.limit || w.lagged {
		w.lagged = true
		w.order = nil
		clear(w.pending)
	} else {
		w.pending[key] = struct{}{}
		w.order = append(w.order, key)
	}
	w.ready.Set()
}
