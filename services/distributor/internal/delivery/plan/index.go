// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/setmap"
)

// Index finds the way from a repository to the sources that read it, the services made of them, and
// the clusters that run those. It is not safe for concurrent use.
//
// It holds a service that has nothing of its own (see [catalog.Service.IsCommon]) as a member of the common
// one, because a hub may derive millions: some 60 bytes with two pointers for the garbage collector, in place
// of 600 with 25. The service is made again for each reader.
type Index struct {
	// services are the ones that have something of their own.
	services map[string]*catalog.Service
	clusters map[string]*tenants
	// bySource holds names of services that have something of their own.
	bySource     setmap.Map[catalog.Source, string]
	byRepository setmap.Map[string, catalog.Source]
	// commons are the common services that have members, with their number.
	commons         map[*catalog.Service]int
	commonsBySource setmap.Map[catalog.Source, *catalog.Service]
	members         int
}

// tenants are the services of a cluster.
type tenants struct {
	// own are the names of the ones that have something of their own, and members are by their local
	// path.
	own     map[string]struct{}
	members map[string]member
}

// member is a service without anything of its own.
type member struct {
	common *catalog.Service
	uid    uuid.UUID
}

func (m member) in(cluster string) *catalog.Service { return m.common.In(cluster, m.uid.String()) }

// memberOf returns the service as a member of the common one. ok is false if it has something of its own.
func memberOf(service *catalog.Service) (m member, ok bool) {
	if !service.IsCommon() || service.Name != objectname.ServicePath(service.Common.Name, service.Spec.Cluster) {
		return member{}, false
	}
	uid, err := uuid.Parse(service.UID)
	return member{service.Common, uid}, err == nil && uid.String() == service.UID
}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{
		services: map[string]*catalog.Service{}, clusters: map[string]*tenants{},
		bySource: setmap.Map[catalog.Source, string]{}, byRepository: setmap.Map[string, catalog.Source]{},
		commons: map[*catalog.Service]int{}, commonsBySource: setmap.Map[catalog.Source, *catalog.Service]{},
	}
}

// Put adds a service, or replaces the one of that name.
func (x *Index) Put(service *catalog.Service) {
	x.Remove(service.Name)
	if m, ok := memberOf(service); ok {
		x.add(service.Spec.Cluster, m)
		return
	}
	x.services[service.Name] = service
	x.tenants(service.Spec.Cluster).own[service.Name] = struct{}{}
	for _, source := range service.Spec.Sources {
		normal := source.Normal()
		x.bySource.Add(normal, service.Name)
		x.byRepository.Add(normal.Repository, normal)
	}
}

// Join adds a member. There must be no service of its name.
func (x *Index) Join(m catalog.Member) { x.add(m.Cluster, member{m.Common, m.UID}) }

func (x *Index) add(cluster string, m member) {
	x.tenants(cluster).members[m.common.Name] = m
	x.join(m.common)
}

func (x *Index) tenants(cluster string) *tenants {
	c := x.clusters[cluster]
	if c == nil {
		c = &tenants{own: map[string]struct{}{}, members: map[string]member{}}
		x.clusters[cluster] = c
	}
	return c
}

// join counts a new member of a common service.
func (x *Index) join(common *catalog.Service) {
	x.members++
	x.commons[common]++
	if x.commons[common] > 1 {
		return
	}
	for _, source := range common.Spec.Sources {
		normal := source.Normal()
		x.commonsBySource.Add(normal, common)
		x.byRepository.Add(normal.Repository, normal)
	}
}

// Remove takes a service out. Removing one that is not there does nothing.
func (x *Index) Remove(name string) {
	if service, ok := x.services[name]; ok {
		delete(x.services, name)
		delete(x.clusters[service.Spec.Cluster].own, name)
		x.tidy(service.Spec.Cluster)
		for _, source := range service.Spec.Sources {
			normal := source.Normal()
			x.bySource.Remove(normal, name)
			x.release(normal)
		}
		return
	}
	if m, cluster := x.member(name); m.common != nil {
		delete(x.clusters[cluster].members, m.common.Name)
		x.tidy(cluster)
		x.leave(m.common)
	}
}

// leave is the reverse of join.
func (x *Index) leave(common *catalog.Service) {
	x.members--
	x.commons[common]--
	if x.commons[common] > 0 {
		return
	}
	delete(x.commons, common)
	for _, source := range common.Spec.Sources {
		normal := source.Normal()
		x.commonsBySource.Remove(normal, common)
		x.release(normal)
	}
}

// release forgets a source that no service names any more.
func (x *Index) release(normal catalog.Source) {
	if !x.Wanted(normal) {
		x.byRepository.Remove(normal.Repository, normal)
	}
}

// tidy forgets a cluster without services.
func (x *Index) tidy(cluster string) {
	if c := x.clusters[cluster]; len(c.own)+len(c.members) == 0 {
		delete(x.clusters, cluster)
	}
}

// member returns a member by its name, with its cluster. The index has none of that name if the common service is nil.
func (x *Index) member(name string) (m member, cluster string) {
	local, cluster := objectname.SplitService(name)
	if c := x.clusters[cluster]; c != nil {
		m = c.members[local]
	}
	return m, cluster
}

// Service returns a service by its name; nil when there is none.
func (x *Index) Service(name string) *catalog.Service {
	if service, ok := x.services[name]; ok {
		return service
	}
	if m, cluster := x.member(name); m.common != nil {
		return m.in(cluster)
	}
	return nil
}

// Has reports whether there is a service of that name.
func (x *Index) Has(name string) bool {
	if _, ok := x.services[name]; ok {
		return true
	}
	m, _ := x.member(name)
	return m.common != nil
}

// Services returns the names of a cluster's services, sorted.
func (x *Index) Services(cluster string) []string {
	names := map[string]struct{}{}
	x.AddServices(cluster, names)
	return slices.Sorted(maps.Keys(names))
}

// AddServices adds the names of a cluster's services to a set.
func (x *Index) AddServices(cluster string, names map[string]struct{}) {
	c := x.clusters[cluster]
	if c == nil {
		return
	}
	maps.Copy(names, c.own)
	for local := range c.members {
		names[objectname.ServicePath(local, cluster)] = struct{}{}
	}
}

// In returns the services of a cluster, in no order.
func (x *Index) In(cluster string) []*catalog.Service {
	c := x.clusters[cluster]
	if c == nil {
		return nil
	}
	services := make([]*catalog.Service, 0, len(c.own)+len(c.members))
	for name := range c.own {
		services = append(services, x.services[name])
	}
	for _, m := range c.members {
		services = append(services, m.in(cluster))
	}
	return services
}

// Sources returns every source that a service names, in its normal spelling, in no order.
func (x *Index) Sources() []catalog.Source {
	var sources []catalog.Source
	for _, ofRepository := range x.byRepository {
		sources = slices.AppendSeq(sources, maps.Keys(ofRepository))
	}
	return sources
}

// Wanted reports whether a service names the source, given in its normal spelling.
func (x *Index) Wanted(source catalog.Source) bool {
	return len(x.bySource[source])+len(x.commonsBySource[source]) > 0
}

// SourcesOf returns the sources that read the repository, in no order.
func (x *Index) SourcesOf(repository string) []catalog.Source {
	return slices.Collect(maps.Keys(x.byRepository[repository]))
}

// Readers returns the names of the services made of the source, in no order. It visits every
// cluster if one of them is a member.
func (x *Index) Readers(source catalog.Source) []string {
	names := slices.Collect(maps.Keys(x.bySource[source]))
	commons := x.commonsBySource[source]
	locals := map[string]struct{}{}
	for common := range commons {
		locals[common.Name] = struct{}{}
	}
	for local := range locals {
		for cluster, c := range x.clusters {
			if _, ok := commons[c.members[local].common]; ok {
				names = append(names, objectname.ServicePath(local, cluster))
			}
		}
	}
	return names
}

// Len returns the number of services.
func (x *Index) Len() int { return len(x.services) + x.members }
