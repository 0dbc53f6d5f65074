// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// relations holds the dependencies between services, and their status, so that no unit has to ask
// another. Readiness is the last reported status, compared with the inputs in the newest plan: a
// service that is healthy with old content is not ready for services that depend on its change. It
// wakes services that may wait for a change. Its lock is taken while a unit's lock is held, never
// the other way round. The zero relations is ready to use.
type relations struct {
	mu       sync.Mutex
	services map[string]*relation
}

// relation is one service with its dependencies.
type relation struct {
	wake      func()            // nil before its start
	isPlanned bool              // the plan has it
	isLeaving bool              // it left the plan, and is not gone yet
	wanted    inventory.Applied // the inputs that the plan names
	needs     []string          // the services that it depends on
	phase     report.Phase      // last reported; zero before the first report
	applied   inventory.Applied // last reported
	neededBy  map[string]bool   // the services that depend on it
}

// ofLocked returns the relation of a service, and creates a missing one.
func (r *relations) ofLocked(service string) *relation {
	if r.services == nil {
		r.services = map[string]*relation{}
	}
	s := r.services[service]
	if s == nil {
		s = &relation{neededBy: map[string]bool{}}
		r.services[service] = s
	}
	return s
}

// setPlan takes over the entries of a plan, all at once: no service counts as ready because of its
// earlier entry.
func (r *relations) setPlan(services []plan.Service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.services {
		s.isPlanned = false
	}
	for _, s := range services {
		relation := r.ofLocked(s.Name)
		relation.isPlanned, relation.isLeaving, relation.wanted = true, false, s.Inputs()
		r.setNeedsLocked(s.Name, s.Spec.ServicesNeeded())
	}
}

func (r *relations) setNeedsLocked(service string, needs []string) {
	s := r.ofLocked(service)
	for _, name := range s.needs {
		delete(r.ofLocked(name).neededBy, service)
	}
	s.needs = needs
	for _, name := range needs {
		r.ofLocked(name).neededBy[service] = true
	}
}

// join adds a started service, with the dependencies in its inventory.
func (r *relations) join(service string, wake func(), needs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ofLocked(service)
	s.wake = wake
	if !s.isPlanned {
		r.setNeedsLocked(service, needs)
	}
}

// setLeaving records that services are no longer in the plan, all at once: otherwise one of them
// could go before another that depends on it has been marked as leaving, too.
func (r *relations) setLeaving(services []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range services {
		r.ofLocked(name).isLeaving = true
	}
}

// leave removes a service that is gone from the cluster.
func (r *relations) leave(service string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ofLocked(service)
	needs := s.needs
	s.wake, s.isLeaving, s.phase, s.applied = nil, false, 0, inventory.Applied{}
	if !s.isPlanned {
		r.setNeedsLocked(service, nil)
	}
	r.wakeLocked(needs...)
	for name := range s.neededBy {
		r.wakeLocked(name)
	}
}

// setStatus records a service's new status.
func (r *relations) setStatus(status report.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ofLocked(status.Service)
	if s.phase == status.Phase && s.applied.SameContent(status.Applied) {
		return
	}
	s.phase, s.applied = status.Phase, status.Applied
	for name := range s.neededBy {
		r.wakeLocked(name)
	}
}

func (r *relations) wakeLocked(names ...string) {
	for _, name := range names {
		if s := r.services[name]; s != nil && s.wake != nil {
			s.wake()
		}
	}
}

// unmet returns why a service must wait for its dependencies, in a sentence for each.
func (r *relations) unmet(service string, needs []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if circle := r.pathLocked(service, service); circle != nil {
		return []string{fmt.Sprintf("the services wait for each other, so take one dependency out: %s", strings.Join(circle, " depends on "))}
	}
	var all []string
	for _, name := range needs {
		if why := r.unreadyLocked(name); why != "" {
			all = append(all, why)
		}
	}
	return all
}

// unreadyLocked returns why a service is not ready for its dependants, or "".
func (r *relations) unreadyLocked(name string) string {
	s := r.services[name]
	switch {
	case s == nil || !s.isPlanned:
		return fmt.Sprintf("no service %q is in this cluster's plan", name)
	case s.phase == 0:
		return fmt.Sprintf("service %q has not been examined yet", name)
	case s.phase != report.Healthy:
		return fmt.Sprintf("service %q is %s", name, s.phase)
	case !s.applied.SameContent(s.wanted):
		return fmt.Sprintf("service %q has a change that is not applied yet", name)
	default:
		return ""
	}
}

// pathLocked returns the shortest path along dependencies, including both ends, or nil. Both ends
// may be the same service.
func (r *relations) pathLocked(from, to string) []string {
	cameFrom := map[string]string{}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		s := r.services[queue[0]]
		if s == nil {
			continue
		}
		for _, name := range s.needs {
			if _, isSeen := cameFrom[name]; isSeen {
				continue
			}
			cameFrom[name] = queue[0]
			if name == to {
				return trail(cameFrom, from, to)
			}
			queue = append(queue, name)
		}
	}
	return nil
}

func trail(cameFrom map[string]string, from, to string) []string {
	way := []string{to}
	for name := cameFrom[to]; name != from; name = cameFrom[name] {
		way = append(way, name)
	}
	way = append(way, from)
	slices.Reverse(way)
	return way
}

// isNeeded reports whether other services must go before a service that left the plan: services
// that left it, too, and depend on it. Services that depend on each other do not wait.
func (r *relations) isNeeded(service string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.services[service]
	if s == nil {
		return false
	}
	for name := range s.neededBy {
		if other := r.services[name]; other.isLeaving && name != service && r.pathLocked(service, name) == nil {
			return true
		}
	}
	return false
}
