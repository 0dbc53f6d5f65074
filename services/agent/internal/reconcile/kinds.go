// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// kindSet is the set of a service's kinds, each with the version in which its objects are applied.
type kindSet map[schema.GroupKind]string

// watchedKinds sets the watches to the union of the kinds of all services. It is safe for
// concurrent use.
type watchedKinds struct {
	watches Watches

	mu       sync.Mutex // held across Watch, so that an older union never follows a newer one
	services map[string]kindSet
}

// set replaces the kinds of a service by those of its objects.
func (w *watchedKinds) set(service string, objects inventory.Set) {
	kinds := kindSet{}
	for _, o := range objects.Objects() {
		kinds[o.GroupKind()] = o.Version
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if maps.Equal(w.services[service], kinds) {
		return
	}
	w.services[service] = kinds
	if len(kinds) == 0 {
		delete(w.services, service)
	}
	w.watches.Watch(w.unionLocked())
}

// unionLocked returns all kinds in order.
func (w *watchedKinds) unionLocked() []schema.GroupVersionKind {
	union := kindSet{}
	for _, kinds := range w.services {
		for kind, version := range kinds {
			union[kind] = max(union[kind], version) // any version, if it is always the same
		}
	}
	var list []schema.GroupVersionKind
	for kind, version := range union {
		list = append(list, kind.WithVersion(version))
	}
	slices.SortFunc(list, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return list
}
