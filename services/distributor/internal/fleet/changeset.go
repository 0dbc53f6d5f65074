// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// changeSet collects what a batch of changes touches. It is filled while the batch is applied, and
// read afterwards to revise plans and to notify watchers. One goroutine owns it.
type changeSet struct {
	// objects are those whose watchers are notified.
	objects map[catalog.Key]struct{}
	// services are the names of services that were added, changed or removed, by the cluster whose
	// plan that concerns. A cluster without names has other settings.
	services map[string]map[string]struct{}
	// clusters are those whose plan watchers look again, whether the plan has changed or not.
	clusters map[string]struct{}
	// sources are the ones that added, changed or removed services name or named, in their normal
	// spelling, and whether a service named them before.
	sources map[catalog.Source]bool
	// reaches are the services of a project that, by its name, the batch touches in addition. hosts
	// are the projects of whose clusters it touches all services of others. The function spread adds
	// their services.
	reaches map[string][]reach
	hosts   map[string]struct{}
	// endedClusters and endedServices are the uids of deleted objects.
	endedClusters, endedServices []string
}

func newChangeSet() *changeSet {
	return &changeSet{
		objects: map[catalog.Key]struct{}{}, services: map[string]map[string]struct{}{}, clusters: map[string]struct{}{},
		sources: map[catalog.Source]bool{}, reaches: map[string][]reach{}, hosts: map[string]struct{}{},
	}
}

func (s *changeSet) addObject(key catalog.Key) { s.objects[key] = struct{}{} }

// addStatus adds a service whose status changed, which is a part of its cluster's.
func (s *changeSet) addStatus(service *catalog.Service) {
	s.addStatusOf(service.Name, service.Spec.Cluster)
}

func (s *changeSet) addStatusOf(path, cluster string) {
	s.addObject(catalog.Key{Kind: catalog.KindService, Name: path})
	s.addObject(catalog.Key{Kind: catalog.KindCluster, Name: cluster})
}

// addService adds a service whose entry in its cluster's plan may change.
func (s *changeSet) addService(service *catalog.Service) {
	s.addServiceOf(service.Name, service.Spec.Cluster)
}

func (s *changeSet) addServiceOf(path, cluster string) {
	s.addStatusOf(path, cluster)
	s.addPlan(cluster)
	s.services[cluster][path] = struct{}{}
}

// addGuests adds the services of other projects in a cluster, whose entries have the facts of it
// that they may know.
func (s *changeSet) addGuests(services *plan.Index, cluster string) {
	for _, name := range services.Services(cluster) {
		if objectname.Project(name) != objectname.Project(cluster) {
			s.addService(services.Service(name))
		}
	}
}

// addSources adds what a service named before a change, or names after it. isWanted reports whether a
// service named a source before the change.
func (s *changeSet) addSources(service *catalog.Service, isWanted func(catalog.Source) bool) {
	for _, source := range service.Spec.Sources {
		normal := source.Normal()
		if _, ok := s.sources[normal]; !ok {
			s.sources[normal] = isWanted(normal)
		}
	}
}

// addPlan adds a cluster whose plan may change.
func (s *changeSet) addPlan(cluster string) {
	if s.services[cluster] == nil {
		s.services[cluster] = map[string]struct{}{}
	}
}
