// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Index finds the way from a repository to the sources that read it, the services made of them, and
// the clusters that run those. It is not safe for concurrent use.
type Index struct {
	services     map[string]*catalog.Service
	byCluster    map[string]names
	bySource     map[catalog.Source]names
	byRepository map[string]map[catalog.Source]struct{}
}

type names map[string]struct{}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{
		services:     map[string]*catalog.Service{},
		byCluster:    map[string]names{},
		bySource:     map[catalog.Source]names{},
		byRepository: map[string]map[catalog.Source]struct{}{},
	}
}

// Put adds a service, or replaces the one of that name.
func (x *Index) Put(service *catalog.Service) {
	x.Remove(service.Name)
	x.services[service.Name] = service
	add(x.byCluster, service.Spec.Cluster, service.Name)
	for _, source := range service.Spec.Sources {
		normal := source.Normal()
		add(x.bySource, normal, service.Name)
		sources, ok := x.byRepository[normal.Repository]
		if !ok {
			sources = map[catalog.Source]struct{}{}
			x.byRepository[normal.Repository] = sources
		}
		sources[normal] = struct{}{}
	}
}

// Remove takes a service out. Removing one that is not there does nothing.
func (x *Index) Remove(name string) {
	service, ok := x.services[name]
	if !ok {
		return
	}
	delete(x.services, name)
	drop(x.byCluster, service.Spec.Cluster, name)
	for _, source := range service.Spec.Sources {
		normal := source.Normal()
		drop(x.bySource, normal, name)
		if _, named := x.bySource[normal]; !named {
			x.forget(normal)
		}
	}
}

func (x *Index) forget(source catalog.Source) {
	sources := x.byRepository[source.Repository]
	delete(sources, source)
	if len(sources) == 0 {
		delete(x.byRepository, source.Repository)
	}
}

func add[K comparable](m map[K]names, key K, name string) {
	set, ok := m[key]
	if !ok {
		set = names{}
		m[key] = set
	}
	set[name] = struct{}{}
}

func drop[K comparable](m map[K]names, key K, name string) {
	delete(m[key], name)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

// Service returns a service by its name; nil when there is none.
func (x *Index) Service(name string) *catalog.Service { return x.services[name] }

// Services returns the names of a cluster's services, sorted.
func (x *Index) Services(cluster string) []string {
	return slices.Sorted(maps.Keys(x.byCluster[cluster]))
}

// Sources returns every source that a service names, in its normal spelling, in no order.
func (x *Index) Sources() []catalog.Source { return slices.Collect(maps.Keys(x.bySource)) }

// Wanted reports whether a service names the source, given in its normal spelling.
func (x *Index) Wanted(source catalog.Source) bool {
	_, ok := x.bySource[source]
	return ok
}

// SourcesOf returns the sources that read the repository, in no order.
func (x *Index) SourcesOf(repository string) []catalog.Source {
	return slices.Collect(maps.Keys(x.byRepository[repository]))
}

// Readers returns the names of the services made of the source, in no order.
func (x *Index) Readers(source catalog.Source) []string {
	return slices.Collect(maps.Keys(x.bySource[source]))
}

// Names returns the names of all services, sorted.
func (x *Index) Names() []string { return slices.Sorted(maps.Keys(x.services)) }

// Len returns the number of services.
func (x *Index) Len() int { return len(x.services) }
