// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// claims says which service an object belongs to, within this process: the first to take it keeps it. It decides races
// that the label on the object, which is read before it is written, cannot decide. The zero claims is ready to use.
type claims struct {
	mu     sync.Mutex
	owners inventory.Index[unique.Handle[string]] // the names of services, each kept once
}

// take gives an object to a service, unless it has another owner, and returns the owner it has then.
func (c *claims) take(k inventory.Key, service string) (owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.owners.At(k); owner != nil {
		return owner.Value()
	}
	c.owners.Put(k, unique.Make(service))
	return service
}

// move gives an object from one service to another, and reports whether it was the first one's.
func (c *claims) move(k inventory.Key, from, to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner := c.owners.At(k)
	switch {
	case owner == nil && from == "":
		c.owners.Put(k, unique.Make(to))
	case owner == nil || owner.Value() != from:
		return false
	default:
		*owner = unique.Make(to)
	}
	return true
}

// giveBack undoes a take or a move of an object that service has: its owner has it again, and nobody if that is the same.
func (c *claims) giveBack(k inventory.Key, service, owner string) {
	if owner == service || !c.move(k, service, owner) {
		c.drop(k, service)
	}
}

// owner is the service that has an object; empty when none has.
func (c *claims) owner(k inventory.Key) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.owners.At(k); owner != nil {
		return owner.Value()
	}
	return ""
}

// drop gives an object up, if service has it.
func (c *claims) drop(k inventory.Key, service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.owners.At(k); owner != nil && owner.Value() == service {
		c.owners.Remove(k)
	}
}

// dropAll gives everything up that a service has taken: also what it has never come to make, which no inventory tells.
func (c *claims) dropAll(service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners.RemoveFunc(func(_ inventory.Key, owner *unique.Handle[string]) bool { return owner.Value() == service })
}

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
	slices.SortFunc(list, func(a, b schema.GroupVersionKind) int { return compareNames(a.String(), b.String()) })
	return list
}

func compareNames(a, b string) int {
	return strings.Compare(a, b)
}
