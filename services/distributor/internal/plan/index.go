// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/setmap"
)

// Index finds the way from a repository to the sources that read it, the services made of them, and
// the clusters that run those. It is not safe for concurrent use.
type Index struct {
	services map[string]*catalog.Service
	// byCluster and bySource hold names of services.
	byCluster    setmap.Map[string, string]
	bySource     setmap.Map[catalog.Source, string]
	byRepository setmap.Map[string, catalog.Source]
}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{
		services:     map[string]*catalog.Service{},
		byCluster:    setmap.Map[string, string]{},
		bySource:     setmap.Map[catalog.Source, string]{},
		byRepository: setmap.Map[string, catalog.Source]{},
	}
}

// Put adds a service, or replaces the one of that name.
func (x *Index) Put(service *catalog.Service) {
	x.Remove(service.Name)
	x.services[service.Name] = service
	x.byCluster.Add(service.Spec.Cluster, service.Name)
	for _, source := range service.Spec.Sources {
		normal := source.Normal()
		x.bySource.Add(normal, service.Name)
		x.byRepository.Add(normal.Repository, normal)
	}
}

// Remove takes a service out. Removing one that is not there does nothing.
func (x *Index) Remove(name string) {
	service, ok := x.services[name]
	if !ok {
		return
	}
	delete(x.services, name)
	x.byCluster.Remove(service.Spec.Cluster, name)
	for _, source := range service.Spec.Sources {
		normal := source.Normal()
		x.bySource.Remove(normal, name)
		if !x.Wanted(normal) {
			x.byRepository.Remove(normal.Repository, normal)
		}
	}
}

// Service returns a service by its name; nil when there is none.
func (x *Index) Service(name string) *catalog.Service { return x.services[name] }

// Services returns the names of a cluster's services, sorted.
func (x *Index) Services(cluster string) []string {
	return slices.Sorted(maps.Keys(x.byCluster[cluster]))
}

// AddServices adds the names of a cluster's services to a set.
func (x *Index) AddServices(cluster string, names map[string]struct{}) {
	maps.Copy(names, x.byCluster[cluster])
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

// Len returns the number of services.
func (x *Index) Len() int { return len(x.services) }
