// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Tally counts the services of a cluster that belong to one project and have one namespace. Nothing
// but their names tells such services apart for a decision about who may see them.
type Tally struct {
	Project, Namespace string
	Total, Healthy     int
}

// Tallies count the services of clusters that were asked for. A count is brought up to date when it
// is read: it costs one status for each service that changed since, for all readers together. It is
// safe for concurrent use.
//
// A writer invalidates services after their status has changed, and before watchers are notified. A
// reader computes statuses while it holds the lock of the cluster's count, so that lock comes
// before the locks of all parts that a status joins.
type Tallies struct {
	catalog *Catalog
	// isHealthy reports whether a service is healthy now, by its status.
	isHealthy func(*catalog.Service) bool

	mu        sync.Mutex
	byCluster map[string]*clusterTally
}

// clusterTally counts the services of one cluster.
type clusterTally struct {
	mu      sync.Mutex
	places  map[Tally]*Tally // by project and namespace alone
	counted map[string]countedService
	// stale are the names of services that have to be counted again.
	stale map[string]struct{}
}

// countedService is how a service was counted.
type countedService struct {
	in        *Tally
	isHealthy bool
}

// of returns the count of a cluster.
func (t *Tallies) of(cluster string) *clusterTally {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.byCluster[cluster]
	if !ok {
		c = &clusterTally{places: map[Tally]*Tally{}, counted: map[string]countedService{}, stale: map[string]struct{}{}}
		_, services := t.catalog.servicesOf(cluster)
		for _, service := range services {
			c.stale[service.Name] = struct{}{}
		}
		t.byCluster[cluster] = c
	}
	return c
}

// isEmpty reports whether no cluster is counted.
func (t *Tallies) isEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byCluster) == 0
}

// recount has services counted again that are, or were, in a cluster.
func (t *Tallies) recount(cluster string, services ...string) {
	t.mu.Lock()
	c := t.byCluster[cluster]
	t.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range services {
		c.stale[name] = struct{}{}
	}
}

// forgetTally drops the count of a cluster that has ended.
func (t *Tallies) forgetTally(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byCluster, cluster)
}

// count takes a service out of the count, and counts it again if it is given.
func (c *clusterTally) count(name string, service *catalog.Service, isHealthy bool) {
	if last, ok := c.counted[name]; ok {
		delete(c.counted, name)
		last.in.add(-1, last.isHealthy)
	}
	if service == nil {
		return
	}
	place := Tally{Project: objectname.Project(name), Namespace: service.Spec.Wanted().NamespaceOrDefault()}
	in, ok := c.places[place]
	if !ok {
		in = new(place)
		c.places[place] = in
	}
	in.add(1, isHealthy)
	c.counted[name] = countedService{in: in, isHealthy: isHealthy}
}

func (t *Tally) add(n int, isHealthy bool) {
	t.Total += n
	if isHealthy {
		t.Healthy += n
	}
}

// invalidate has the services of a change counted again, in their present and their former
// clusters.
func (t *Tallies) invalidate(set *changeSet) {
	if t.isEmpty() {
		return
	}
	for key := range set.objects {
		if key.Kind != catalog.KindService {
			continue
		}
		if cluster := t.clusterOf(key.Name); cluster != "" {
			t.recount(cluster, key.Name)
		}
	}
	for cluster := range set.clusters {
		if _, ok := t.catalog.Cluster(cluster); !ok {
			t.forgetTally(cluster)
		}
	}
	for cluster, names := range set.services {
		for name := range names {
			t.recount(cluster, name)
		}
	}
}

// clusterOf returns the cluster of a service, which its name holds unless that is a local one; "" if there is no
// such service.
func (t *Tallies) clusterOf(service string) string {
	if _, cluster := objectname.SplitService(service); cluster != "" {
		return cluster
	}
	found, ok := t.catalog.Service(service)
	if !ok {
		return ""
	}
	return found.Spec.Cluster
}

// tallied runs fn with the up-to-date count of a cluster.
func (t *Tallies) tallied(cluster string, fn func(*clusterTally)) {
	c := t.of(cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.stale {
		service, ok := t.catalog.Service(name)
		if !ok || service.Spec.Cluster != cluster {
			c.count(name, nil, false)
			continue
		}
		c.count(name, service, t.isHealthy(service))
	}
	clear(c.stale)
	fn(c)
}

// TalliesOf counts a cluster's services and the healthy ones of them, by project and namespace, in no
// order.
func (t *Tallies) TalliesOf(cluster string) (all []Tally) {
	t.tallied(cluster, func(c *clusterTally) {
		for place, tally := range c.places {
			if tally.Total == 0 {
				delete(c.places, place)
				continue
			}
			all = append(all, *tally)
		}
	})
	return all
}

// TallyOf counts one service: it is zero if the service is not in the cluster.
func (t *Tallies) TallyOf(cluster, service string) (one Tally) {
	t.tallied(cluster, func(c *clusterTally) {
		if counted, ok := c.counted[service]; ok {
			one = Tally{Project: counted.in.Project, Namespace: counted.in.Namespace}
			one.add(1, counted.isHealthy)
		}
	})
	return one
}
