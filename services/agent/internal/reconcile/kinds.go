// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// kindSet is the set of kinds that a service has objects of, each with the version it is applied in.
type kindSet map[schema.GroupKind]string

func kindsOf(objects inventory.Set) kindSet {
	kinds := kindSet{}
	for _, o := range objects.Objects() {
		kinds[o.GroupKind()] = o.Version
	}
	return kinds
}

// watch notes a service's kinds, and sets the watches to the union over all services when that changed.
func (e *Engine) watch(service string, objects inventory.Set) {
	kinds := kindsOf(objects)
	e.mu.Lock()
	defer e.mu.Unlock() // held across Watch, so that an older union never comes after a newer one
	if maps.Equal(e.kinds[service], kinds) {
		return
	}
	e.kinds[service] = kinds
	if len(kinds) == 0 {
		delete(e.kinds, service)
	}
	e.params.Watches.Watch(e.union())
}

// union lists all kinds in order. e.mu is held.
func (e *Engine) union() []schema.GroupVersionKind {
	union := kindSet{}
	for _, kinds := range e.kinds {
		for kind, version := range kinds {
			union[kind] = max(union[kind], version) // any does, as long as it is always the same
		}
	}
	var list []schema.GroupVersionKind
	for kind, version := range union {
		list = append(list, kind.WithVersion(version))
	}
	slices.SortFunc(list, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return list
}
