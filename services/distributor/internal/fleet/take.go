// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"reflect"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// dirt collects what a batch of changes touches.
type dirt struct {
	objects map[catalog.Key]struct{}
	// services are the names of services that came, changed or went, by the clusters whose plans that concerns.
	services map[string]map[string]struct{}
	// ended are clusters that were deleted, even if there is another one of the name by now.
	ended map[string]struct{}
}

func newDirt() *dirt {
	return &dirt{objects: map[catalog.Key]struct{}{}, services: map[string]map[string]struct{}{}, ended: map[string]struct{}{}}
}

func (d *dirt) object(key catalog.Key) { d.objects[key] = struct{}{} }
func (d *dirt) service(s *catalog.Service) {
	d.object(s.Key())
	d.object(catalog.Key{Kind: catalog.KindCluster, Name: s.Spec.Cluster})
	d.plan(s.Spec.Cluster)[s.Name] = struct{}{}
}

// plan notes that the cluster's plan may change, and returns the services of it that do.
func (d *dirt) plan(cluster string) map[string]struct{} {
	names, ok := d.services[cluster]
	if !ok {
		names = map[string]struct{}{}
		d.services[cluster] = names
	}
	return names
}

// take applies changes and tells the watchers.
func (v *View) take(ctx context.Context, changes catalog.Changes) {
	d := newDirt()
	v.mu.Lock()
	v.bury(d, changes.Deleted)
	v.takeClusters(d, changes.Clusters)
	v.takeRepositories(d, changes.Repositories)
	v.takeServices(d, changes.Services)
	v.takePeople(d, changes)
	v.takeReports(d, changes.Reports)
	v.takeGrants(changes.Grants)
	v.revision = changes.Revision
	changed := v.revise(ctx, d, cause{})
	v.mu.Unlock()
	v.publish(d, changed)
	if len(changes.Services)+len(changes.Repositories) > 0 {
		v.announceSources()
	}
}

func (v *View) publish(d *dirt, plans []string) {
	v.p.Plans.Publish(plans...)
	for key := range d.objects {
		v.p.Objects.Publish(key)
	}
}

// bury removes deleted objects, unless their name belongs to another object by now.
func (v *View) bury(d *dirt, deleted []catalog.Tombstone) {
	for _, stone := range deleted {
		if stone.Key.Kind == catalog.KindToken {
			delete(v.people.tokens, stone.Key.Name)
			continue
		}
		object := v.object(stone.Key)
		if object == nil || object.Meta().UID != stone.UID {
			continue
		}
		d.object(stone.Key)
		delete(v.sorted, stone.Key.Kind)
		switch o := object.(type) {
		case *catalog.Cluster:
			delete(v.clusters, o.Name)
			delete(v.plans, o.Name) // and with it what its agent could read
			delete(v.lineages, o.Name)
			v.presence.forget(o.UID)
			d.ended[o.Name] = struct{}{}
		case *catalog.Repository:
			delete(v.repositories, o.Name)
			v.forgetMirror(d, o.Name)
		case *catalog.Service:
			v.index.Remove(o.Name)
			delete(v.reports, o.UID)
			d.service(o)
		case *catalog.User:
			v.people.removeUser(o)
		case *catalog.AccessBinding:
			v.people.removeBinding(o)
		}
	}
}

// forgetMirror drops what was known of a repository's content.
func (v *View) forgetMirror(d *dirt, repository string) {
	delete(v.mirrors, repository)
	for source := range v.resolutions {
		if source.Repository != repository {
			continue
		}
		v.hold(source, catalog.Resolution{})
		for _, name := range v.index.Readers(source) {
			d.service(v.index.Service(name))
		}
	}
}

// object returns the object of that name, or nil.
func (v *View) object(key catalog.Key) catalog.Object {
	switch key.Kind {
	case catalog.KindCluster:
		if c := v.clusters[key.Name]; c != nil {
			return c
		}
	case catalog.KindRepository:
		if r := v.repositories[key.Name]; r != nil {
			return r
		}
	case catalog.KindService:
		if s := v.index.Service(key.Name); s != nil {
			return s
		}
	case catalog.KindUser:
		if u := v.people.users[key.Name]; u != nil {
			return u
		}
	case catalog.KindAccessBinding:
		if b := v.people.bindings[key.Name]; b != nil {
			return b
		}
	case catalog.KindToken: // is no object
	}
	return nil
}

func (v *View) takeClusters(d *dirt, clusters []*catalog.Cluster) {
	for _, cluster := range clusters {
		old := v.clusters[cluster.Name]
		v.clusters[cluster.Name] = cluster
		if old == nil {
			delete(v.sorted, catalog.KindCluster)
		}
		if old == nil || old.UID != cluster.UID || !reflect.DeepEqual(visible(old), visible(cluster)) {
			d.object(cluster.Key())
		}
		if old != nil && !old.Spec.Settings.Equal(cluster.Spec.Settings) {
			d.plan(cluster.Name)
		}
		if old != nil && old.Agent.KeyGeneration != cluster.Agent.KeyGeneration {
			// Streams that were opened with the old key look again whether they may go on.
			v.p.Plans.Publish(cluster.Name)
		}
	}
}

// visible leaves out what changes every minute without anybody wanting to be told.
func visible(c *catalog.Cluster) catalog.Cluster {
	n := *c
	n.Agent.LastSeenAt, n.Agent.ConnectedUntil, n.Agent.Sequence = zeroTime, zeroTime, 0
	return n
}

func (v *View) takeRepositories(d *dirt, repositories []*catalog.Repository) {
	for _, repository := range repositories {
		old := v.repositories[repository.Name]
		if old == nil {
			delete(v.sorted, catalog.KindRepository)
		} else if old.UID != repository.UID {
			v.forgetMirror(d, repository.Name)
		}
		v.repositories[repository.Name] = repository
		d.object(repository.Key())
	}
}

func (v *View) takeServices(d *dirt, services []*catalog.Service) {
	for _, service := range services {
		service = v.sharing.service(service)
		if old := v.index.Service(service.Name); old == nil {
			delete(v.sorted, catalog.KindService)
		} else {
			d.service(old)
		}
		v.index.Put(service)
		d.service(service)
	}
}

func (v *View) takeReports(d *dirt, reports []catalog.StoredReport) {
	for _, report := range reports {
		service := v.index.Service(report.Service)
		if service != nil && service.UID == report.ServiceUID {
			v.takeReport(d, service, report)
		}
	}
}

func (v *View) takeReport(d *dirt, service *catalog.Service, report catalog.StoredReport) {
	if reflect.DeepEqual(v.reports[service.UID], report) {
		return
	}
	v.reports[service.UID] = v.sharing.report(service, report)
	d.object(service.Key())
	d.object(catalog.Key{Kind: catalog.KindCluster, Name: service.Spec.Cluster})
}
