// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"maps"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// derivations are the services that global services stand for. The derived services themselves are
// in the catalog's index, with the ones that people wrote. The catalog's lock guards it.
//
// No expression is evaluated while that lock is held. A batch of changes is decided before it is applied,
// as far as that is cheap (see batch), and the rest is left to jobs, which the deriver carries out (see
// deriver.go). Both make verdicts, which are applied under the lock.
type derivations struct {
	// globals are by path. Only the goroutine that holds View.refreshing derives with one, or, while the
	// path has a job, the worker of the deriver that has taken it.
	globals map[string]*derive.Global
	// conflicts are clusters of which a person's service has the name, by the global service's path.
	conflicts map[string]map[string]struct{}
	// forbidden are clusters that would be selected if the project might use them.
	forbidden map[string]map[string]struct{}
	// requests are the latest requests for syncs, and exceptions what people decided about single
	// services, both by the uid of the service.
	requests   map[string]string
	exceptions map[string]*catalog.Exception
	// departures are by the uid of the global service. A map of one is replaced and never changed, because
	// evaluations read it without the lock.
	departures map[string]catalog.Departures
	// variants are the stored configurations that lead to back ends.
	variants *variantBook
	// version is the version of the projects and sets that configurations are composed of.
	version uint64

	// jobs are the pending derivations, by path.
	jobs map[string]*job
	// turns counts the turns of all jobs.
	turns uint64
	// late are the global services that took longer than they may, by path.
	late map[string]*lateness
	// settled is closed when the jobs that the view began with are settled.
	settled chan struct{}
}

func newDerivations() *derivations {
	return &derivations{
		globals: map[string]*derive.Global{}, conflicts: map[string]map[string]struct{}{}, forbidden: map[string]map[string]struct{}{},
		requests: map[string]string{}, exceptions: map[string]*catalog.Exception{},
		departures: map[string]catalog.Departures{}, jobs: map[string]*job{}, late: map[string]*lateness{},
		settled: make(chan struct{}), variants: newVariantBook(),
	}
}

// verdict is the effect of a global service on a cluster, regardless of what the cluster has of it
// now.
type verdict struct {
	cluster    *catalog.Cluster
	isSelected bool
	// derived is empty if err has the reason, if the cluster is not selected, or if the project may
	// not use it.
	derived derive.Derived
	// err is why there is no service. The cluster is selected then, or may be.
	err error
}

// putVerdictLocked brings what a cluster has of a global service in line with a verdict. isFirst is true
// if this replica did not know before what the cluster has.
func putVerdictLocked(c *contents, global *catalog.GlobalService, v verdict, isFirst bool, s *changeSet) {
	d, name := c.derived, v.cluster.Name
	cluster, ok := c.clusters.objects[name]
	if !ok || cluster.UID != v.cluster.UID {
		return // what the cluster had ended with it
	}
	own, isAllowed := mayUseLocked(&c.shelves, global, cluster)
	note(d.forbidden, global.Name, name, v.isSelected && !isAllowed)
	path := global.DerivedPath(name)
	if member, ok := v.derived.Member(); ok && isAllowed && mayJoinLocked(c, path, member) && own.Admits(member.Common) == nil {
		note(d.conflicts, global.Name, name, false)
		joinLocked(c, path, member, s)
		return
	}
	current := c.services.Service(path)
	isConflict := v.isSelected && isAllowed && current != nil && current.Derived == nil
	note(d.conflicts, global.Name, name, isConflict)
	switch {
	case isConflict:
		s.addObject(global.Key())
		return
	case !v.isSelected || !isAllowed:
		if current != nil && current.Derived != nil {
			removeDerivedLocked(c, current, s)
		} else if isFirst {
			s.endedServices = append(s.endedServices, catalog.DerivedUID(global.UID, cluster.UID))
		}
		return
	case v.derived.IsNone() && v.err == nil:
		return // the project may use the cluster only since the verdict, and has it derived again
	}
	next, err := v.derived.Service(), v.err
	if err == nil {
		err = own.Admits(next)
	}
	if err != nil {
		next = kept(global, cluster, current, problemOf(derive.Failure(global, cluster, err)))
	}
	putDerivedLocked(c, current, next, s)
}

// mayJoinLocked reports whether the catalog has no service of the path, and holds nothing that makes the member
// differ from its common service.
func mayJoinLocked(c *contents, path string, member catalog.Member) bool {
	d := c.derived
	if c.services.Has(path) || member.Common.Derived.Config != nil {
		return false
	}
	if len(d.requests)+len(d.exceptions) == 0 {
		return true
	}
	uid := member.UID.String()
	return d.requests[uid] == "" && d.exceptions[uid] == nil
}

// joinLocked adds a member, of which the catalog holds nothing yet.
func joinLocked(c *contents, path string, member catalog.Member, s *changeSet) {
	c.indexed.come(c, path, s)
	s.addSources(member.Common, c.services.Wanted)
	c.services.Join(member)
	s.addServiceOf(path, member.Cluster)
	s.addObject(catalog.Key{Kind: catalog.KindGlobalService, Name: member.Common.Derived.Global})
}

// putWaitingLocked gives a cluster that has nothing of a global service yet, and may be selected, a
// service that waits: its agent may have the derived one from another replica, or from before a start.
func putWaitingLocked(c *contents, global *catalog.GlobalService, cluster *catalog.Cluster, problem *catalog.Problem, s *changeSet) {
	now, ok := c.clusters.objects[cluster.Name]
	current := c.services.Service(global.DerivedPath(cluster.Name))
	if !ok || now.UID != cluster.UID || !maySelectLocked(&c.shelves, global, now) || current != nil && !isWaiting(current) {
		return
	}
	putDerivedLocked(c, current, derive.Waiting(global, now, problem), s)
}

// isWaiting reports whether a service is the placeholder of one that was never derived.
func isWaiting(service *catalog.Service) bool {
	return service.Derived != nil && len(service.Spec.Sources) == 0
}

// maySelectLocked reports whether a global service selects a cluster if its condition holds there.
func maySelectLocked(objects *shelves, global *catalog.GlobalService, cluster *catalog.Cluster) bool {
	if _, ok := global.Spec.Clusters.Selects(cluster); !ok {
		return false
	}
	_, isAllowed := mayUseLocked(objects, global, cluster)
	return isAllowed
}

// mayUseLocked returns the project of a global service, and whether it may use a cluster.
func mayUseLocked(objects *shelves, global *catalog.GlobalService, cluster *catalog.Cluster) (*catalog.Project, bool) {
	own, ok := objects.projects.objects[objectname.Project(global.Name)]
	if !ok {
		return nil, false
	}
	return own, own.MayUseCluster(objects.projects.objects[objectname.Project(cluster.Name)], cluster)
}

// kept returns what a cluster has of a global service that cannot be derived for it: what it had, or else
// a service that waits.
func kept(global *catalog.GlobalService, cluster *catalog.Cluster, current *catalog.Service, problem *catalog.Problem) *catalog.Service {
	if current == nil || current.UID != catalog.DerivedUID(global.UID, cluster.UID) || isWaiting(current) {
		return derive.Waiting(global, cluster, problem)
	}
	last := *current
	last.ConfigProblem = problem
	return &last
}

// problemOf returns the problem of one cluster.
func problemOf(failed *derive.Error) *catalog.Problem {
	if errors.Is(failed, expression.ErrTooExpensive) {
		return &catalog.Problem{Reason: reason.DerivationTooExpensive, Message: failed.Error()}
	}
	return &catalog.Problem{Reason: reason.DerivationFailed, Message: failed.Error()}
}

// putDerivedLocked puts a derived service, which no reader has seen yet, in the place of the
// current one, unless they are equal.
func putDerivedLocked(c *contents, current, next *catalog.Service, s *changeSet) {
	next.SyncRequest = c.derived.requests[next.UID]
	next.Except(c.derived.exceptions[next.UID])
	c.derived.variants.settle(next)
	if current != nil && derive.Same(current, next) {
		return
	}
	if current == nil {
		c.indexed.come(c, next.Name, s)
	} else {
		s.addService(current)
		s.addSources(current, c.services.Wanted)
		if current.UID != next.UID {
			s.endedServices = append(s.endedServices, current.UID)
		}
	}
	s.addSources(next, c.services.Wanted)
	c.derived.variants.count(next, 1)
	c.derived.variants.count(current, -1)
	c.services.Put(next)
	s.addService(next)
	s.addObject(catalog.Key{Kind: catalog.KindGlobalService, Name: next.Derived.Global})
}

func removeDerivedLocked(c *contents, service *catalog.Service, s *changeSet) {
	s.addSources(service, c.services.Wanted)
	c.services.Remove(service.Name)
	c.derived.variants.count(service, -1)
	c.indexed.leave(c, service.Name, s)
	s.addService(service)
	s.endedServices = append(s.endedServices, service.UID)
	s.addObject(catalog.Key{Kind: catalog.KindGlobalService, Name: service.Derived.Global})
}

// dropDerivedLocked removes the derived ones among some services.
func dropDerivedLocked(c *contents, paths []string, s *changeSet) {
	for _, path := range paths {
		if service := c.services.Service(path); service != nil && service.Derived != nil {
			removeDerivedLocked(c, service, s)
		}
	}
}

// departLocked takes over a departure.
func departLocked(d *derivations, request catalog.SyncRequest, s *changeSet) {
	last := d.departures[request.GlobalUID]
	if last[request.ServiceUID] == request.Departure {
		return
	}
	next := maps.Clone(last)
	if next == nil {
		next = catalog.Departures{}
	}
	next[request.ServiceUID] = request.Departure
	if request.Departure.State == "" {
		delete(next, request.ServiceUID)
	}
	d.departures[request.GlobalUID] = next
	path, _ := objectname.SplitService(request.Service)
	s.addObject(catalog.Key{Kind: catalog.KindGlobalService, Name: path})
}

// endDeparturesLocked forgets the departures of a cluster that was deleted.
func endDeparturesLocked(d *derivations, clusterUID string) {
	for global, last := range d.departures {
		uid := catalog.DerivedUID(global, clusterUID)
		if _, ok := last[uid]; ok {
			next := maps.Clone(last)
			delete(next, uid)
			d.departures[global] = next
		}
	}
}

// requestLocked takes over requests for syncs, exceptions and departures. They wait for a service
// that is not derived yet.
func requestLocked(c *contents, requests []catalog.SyncRequest, s *changeSet) {
	for _, request := range requests {
		departLocked(c.derived, request, s)
		c.derived.requests[request.ServiceUID], c.derived.exceptions[request.ServiceUID] = request.Request, request.Exception
		if current := c.services.Service(request.Service); current != nil && current.Derived != nil && current.UID == request.ServiceUID {
			putDerivedLocked(c, current, new(*current), s)
		}
	}
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
