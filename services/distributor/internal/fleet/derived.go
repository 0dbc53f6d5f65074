// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/expression"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/derive"
)

// derivations are what global services stand for. The derived services themselves are in the catalog's
// index, with those that people wrote. The catalog's lock guards it.
//
// Nothing is derived while a batch of changes is applied: what it touches is marked, and derived at its
// end, from the catalog as it is then.
type derivations struct {
	// globals are by path.
	globals map[string]*derive.Global
	// conflicts are clusters of which a person's service has the name, by the global service's path.
	conflicts map[string]map[string]struct{}
	// forbidden are clusters that would be selected if the project might use them.
	forbidden map[string]map[string]struct{}
	// requests are the latest requests for syncs, by the uid of the service.
	requests map[string]string

	// marked are what the batch touches: paths of global services, and clusters.
	markedGlobals  map[string]struct{}
	markedClusters map[string]struct{}
	// markedServices are paths of single services.
	markedServices map[string]struct{}
	// allMarked is true if the batch touches every global service.
	allMarked bool
	// facts are those of the clusters that the batch has looked at.
	facts map[string]*derive.Cluster
}

func newDerivations() *derivations {
	return &derivations{
		globals: map[string]*derive.Global{}, conflicts: map[string]map[string]struct{}{}, forbidden: map[string]map[string]struct{}{},
		requests: map[string]string{}, markedGlobals: map[string]struct{}{}, markedClusters: map[string]struct{}{}, markedServices: map[string]struct{}{},
		facts: map[string]*derive.Cluster{},
	}
}

// factsOf returns the facts of a cluster, which expressions of all global services share.
func (d *derivations) factsOf(cluster *catalog.Cluster) *derive.Cluster {
	known, ok := d.facts[cluster.Name]
	if !ok {
		known = &derive.Cluster{Cluster: cluster}
		d.facts[cluster.Name] = known
	}
	return known
}

// mark notes what the change of an object means for derived services. Either may be nil.
func (d *derivations) mark(last, next catalog.Object) {
	object := next
	if next == nil {
		object = last
	}
	switch o := object.(type) {
	case *catalog.GlobalService:
		d.markedGlobals[o.Name] = struct{}{}
	case *catalog.Project:
		// It may use other clusters, or others may use its own.
		d.allMarked = true
	case *catalog.Service:
		d.markedServices[o.Name] = struct{}{}
	case *catalog.Cluster:
		a, _ := last.(*catalog.Cluster)
		b, _ := next.(*catalog.Cluster)
		if a == nil || b == nil || a.UID != b.UID || factsDiffer(a, b) {
			d.markedClusters[o.Name] = struct{}{}
		}
	}
}

// factsDiffer reports whether expressions may see a difference between two states of a cluster.
func factsDiffer(a, b *catalog.Cluster) bool {
	x, y := a.Agent.Report, b.Agent.Report
	return !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) || x.KubernetesVersion != y.KubernetesVersion ||
		x.AgentVersion != y.AgentVersion || !slices.Equal(x.Capabilities, y.Capabilities)
}

// deriveLocked derives again what the batch has touched, and adds that to the set. The caller holds the
// catalog's lock.
func deriveLocked(c *Catalog, requests []catalog.SyncRequest, s *changeSet) {
	d := c.derived
	for _, request := range requests {
		d.requests[request.ServiceUID] = request.Request
		d.markedServices[request.Service] = struct{}{}
	}
	if d.allMarked {
		for name := range d.globals {
			d.markedGlobals[name] = struct{}{}
		}
	}
	for name := range d.markedGlobals {
		deriveGlobalLocked(c, name, s)
	}
	for name := range d.markedClusters {
		deriveClusterLocked(c, name, s)
	}
	for path := range d.markedServices {
		local, cluster := objectname.SplitService(path)
		if found, ok := c.objects[catalog.KindCluster][cluster].(*catalog.Cluster); ok && d.globals[local] != nil {
			deriveOneLocked(c, d.globals[local], d.factsOf(found), s)
		}
	}
	clear(d.markedGlobals)
	clear(d.markedClusters)
	clear(d.markedServices)
	d.facts, d.allMarked = map[string]*derive.Cluster{}, false
}

// deriveGlobalLocked derives one global service for every cluster.
func deriveGlobalLocked(c *Catalog, name string, s *changeSet) {
	d := c.derived
	delete(d.conflicts, name)
	delete(d.forbidden, name)
	global, ok := c.objects[catalog.KindGlobalService][name].(*catalog.GlobalService)
	var compiled *derive.Global
	if ok {
		if known := d.globals[name]; known != nil && known.Spec() == global {
			compiled = known
		} else if made, err := derive.Compile(global); err == nil {
			compiled = made
		}
	}
	if compiled == nil {
		delete(d.globals, name)
		if ok {
			return // one that a later version of the hub wrote: what is derived stays
		}
		for _, path := range slices.Collect(c.names[catalog.KindService].inClusters(name)) {
			if service := c.services.Service(path); service.Derived != nil {
				removeDerivedLocked(c, service, s)
			}
		}
		return
	}
	d.globals[name] = compiled
	for _, object := range c.objects[catalog.KindCluster] {
		if cluster, ok := object.(*catalog.Cluster); ok {
			deriveOneLocked(c, compiled, d.factsOf(cluster), s)
		}
	}
}

// deriveClusterLocked derives every global service for one cluster.
func deriveClusterLocked(c *Catalog, name string, s *changeSet) {
	d := c.derived
	cluster, ok := c.objects[catalog.KindCluster][name].(*catalog.Cluster)
	if !ok {
		for _, path := range c.services.Services(name) {
			if service := c.services.Service(path); service.Derived != nil {
				removeDerivedLocked(c, service, s)
			}
		}
		for global := range d.globals {
			unset(d.conflicts, global, name)
			unset(d.forbidden, global, name)
		}
		return
	}
	facts := d.factsOf(cluster)
	for path, global := range d.globals {
		if _, isDone := d.markedGlobals[path]; !isDone {
			deriveOneLocked(c, global, facts, s)
		}
	}
}

// deriveOneLocked derives one global service for one cluster.
func deriveOneLocked(c *Catalog, g *derive.Global, cluster *derive.Cluster, s *changeSet) {
	ctx := context.Background() // expressions are bounded by their cost
	d, global, name := c.derived, g.Spec(), cluster.Cluster.Name
	how, isSelected, failure := g.Matches(ctx, cluster)
	current := c.services.Service(global.DerivedPath(name))
	own, isAllowed := mayUseLocked(c, global, cluster.Cluster)
	note(d.forbidden, global.Name, name, isSelected && !isAllowed)
	isConflict := isSelected && isAllowed && current != nil && current.Derived == nil
	note(d.conflicts, global.Name, name, isConflict)
	switch {
	case isConflict:
		s.addObject(global.Key())
		return
	case !isSelected || !isAllowed:
		if current != nil && current.Derived != nil {
			removeDerivedLocked(c, current, s)
		}
		return
	}
	next, err := (*catalog.Service)(nil), failure
	if failure == nil {
		next, err = g.Derive(ctx, cluster, how)
	}
	if err == nil {
		err = own.Admits(next)
	}
	if err != nil {
		next = keptLocked(g, cluster, current, err)
	}
	next.SyncRequest = d.requests[next.UID]
	if current == nil || !derive.Same(current, next) {
		putDerivedLocked(c, current, next, s)
	}
}

// mayUseLocked returns the project of a global service, and whether it may use a cluster.
func mayUseLocked(c *Catalog, global *catalog.GlobalService, cluster *catalog.Cluster) (*catalog.Project, bool) {
	own, ok := c.objects[catalog.KindProject][objectname.Project(global.Name)].(*catalog.Project)
	if !ok {
		return nil, false
	}
	owner, _ := c.objects[catalog.KindProject][objectname.Project(cluster.Name)].(*catalog.Project)
	return own, own.MayUseCluster(owner, cluster)
}

// keptLocked returns what a cluster has of a global service that cannot be derived for it: what it had, or
// else a service that waits.
func keptLocked(g *derive.Global, cluster *derive.Cluster, current *catalog.Service, err error) *catalog.Service {
	failed := g.Failure(cluster, err)
	problem := &catalog.Problem{Reason: reason.DerivationFailed, Message: failed.Error()}
	if errors.Is(failed, expression.ErrTooExpensive) {
		problem.Reason = reason.DerivationTooExpensive
	}
	if current == nil || current.UID != catalog.DerivedUID(g.Spec().UID, cluster.Cluster.UID) || current.ConfigWaits {
		return derive.Waiting(g.Spec(), cluster.Cluster, problem)
	}
	kept := *current
	kept.ConfigProblem = problem
	return &kept
}

func putDerivedLocked(c *Catalog, current, next *catalog.Service, s *changeSet) {
	key := next.Key()
	if current == nil {
		c.names[key.Kind].add(key.Name)
		c.countLocked(key, 1, s)
	} else {
		s.addService(current)
		s.addSources(current, c.services.Wanted)
		if current.UID != next.UID {
			s.endedServices = append(s.endedServices, current.UID)
		}
	}
	s.addSources(next, c.services.Wanted)
	c.services.Put(next)
	s.addService(next)
	s.addObject(catalog.Key{Kind: catalog.KindGlobalService, Name: next.Derived.Global})
}

func removeDerivedLocked(c *Catalog, service *catalog.Service, s *changeSet) {
	key := service.Key()
	s.addSources(service, c.services.Wanted)
	c.names[key.Kind].remove(key.Name)
	c.services.Remove(key.Name)
	c.countLocked(key, -1, s)
	s.addService(service)
	s.endedServices = append(s.endedServices, service.UID)
	s.addObject(catalog.Key{Kind: catalog.KindGlobalService, Name: service.Derived.Global})
}

// note puts a cluster into the set of a global service, or takes it out.
func note(sets map[string]map[string]struct{}, global, cluster string, isIn bool) {
	if !isIn {
		unset(sets, global, cluster)
		return
	}
	if sets[global] == nil {
		sets[global] = map[string]struct{}{}
	}
	sets[global][cluster] = struct{}{}
}

func unset(sets map[string]map[string]struct{}, global, cluster string) {
	if set, ok := sets[global]; ok {
		if delete(set, cluster); len(set) == 0 {
			delete(sets, global)
		}
	}
}
