// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// spreadAtOnce is how many names spread visits under one lock.
const spreadAtOnce = 1000

// reach reports whether an edit touches a service of its project. The cluster is nil if the catalog does not have it.
type reach func(*catalog.Service, *catalog.Cluster) bool

// addReach adds the services of a project that an edit touches.
func (s *changeSet) addReach(project string, touches reach) {
	s.reaches[project] = append(s.reaches[project], touches)
}

// addCovered adds the services that a rollout policy covered or will cover, if an edit changes
// which these are: their plans do not depend on it otherwise. A policy that is not there is nil.
func (s *changeSet) addCovered(last, next *catalog.RolloutPolicy) {
	if last != nil && next != nil && last.SelectsLike(next) {
		return
	}
	s.addReach(objectname.Project(cmp.Or(next, last).Name), func(service *catalog.Service, cluster *catalog.Cluster) bool {
		var labels map[string]string
		if cluster != nil {
			labels = cluster.Labels
		}
		return last != nil && last.Covers(service, labels) || next != nil && next.Covers(service, labels)
	})
}

// spread adds the services that edits of few objects touch. A project may have 200,000 services, so
// it visits some at a time, and others use the catalog between. The caller holds the view's
// writing, so services and clusters stay.
func spread(c *Catalog, s *changeSet) {
	for project, reaches := range s.reaches {
		eachName(c, catalog.KindService, project, func(name string) {
			service := c.contents.services.Service(name)
			cluster := c.contents.clusters.objects[service.Spec.Cluster]
			for _, touches := range reaches {
				if touches(service, cluster) {
					s.addService(service)
					return
				}
			}
		})
	}
	for project := range s.hosts {
		eachName(c, catalog.KindCluster, project, func(name string) { s.addGuests(c.contents.services, name) })
	}
}

// eachName calls do with the names of a project's objects of a kind, under the catalog's lock for reading.
func eachName(c *Catalog, kind catalog.Kind, project string, do func(name string)) {
	some := func(after string) (last string) {
		c.mu.RLock()
		defer c.mu.RUnlock()
		left := spreadAtOnce
		for name := range c.contents.byKind[kind].sorted().inProject(project, after) {
			do(name)
			if left--; left == 0 {
				return name
			}
		}
		return ""
	}
	for name := some(""); name != ""; {
		name = some(name)
	}
}
