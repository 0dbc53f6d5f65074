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

// relations knows which services depend on which, and how they fare, so that nobody has to ask another unit. It wakes the
// units that may have waited for a change. Its lock is taken with a unit's lock held, never the other way round. The zero
// relations is ready to use.
type relations struct {
	mu       sync.Mutex
	services map[string]*relation
}

// relation is one service among others.
type relation struct {
	unit     *unit             // nil before its start
	planned  bool              // the plan has it
	leaving  bool              // it left the plan, and is not gone yet
	wanted   inventory.Applied // the inputs that the plan names
	needs    []string          // the services that it depends on
	phase    report.Phase      // as last reported; zero before
	applied  inventory.Applied // likewise
	neededBy map[string]bool   // the services that depend on it
}

// of returns the relation of a service. r.mu is held.
func (r *relations) of(service string) *relation {
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

// plan takes over what a plan says of its services, of all at once: none of them is taken for ready afterwards because of
// what it was before.
func (r *relations) plan(services []plan.Service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.services {
		s.planned = false
	}
	for _, s := range services {
		relation := r.of(s.Name)
		relation.planned, relation.leaving, relation.wanted = true, false, s.Inputs()
		r.depend(s.Name, s.Spec.ServicesNeeded())
	}
}

// depend notes what a service depends on. r.mu is held.
func (r *relations) depend(service string, on []string) {
	s := r.of(service)
	for _, name := range s.needs {
		delete(r.of(name).neededBy, service)
	}
	s.needs = on
	for _, name := range on {
		r.of(name).neededBy[service] = true
	}
}

// join makes a unit known, with what its inventory says it depends on.
func (r *relations) join(u *unit, on []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of(u.name)
	s.unit = u
	if !s.planned {
		r.depend(u.name, on)
	}
}

// leave notes that services are no longer in the plan, of all at once.
func (r *relations) leave(services map[string]*unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range services {
		r.of(name).leaving = true
	}
}

// forget drops a service that is gone from the cluster.
func (r *relations) forget(service string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of(service)
	on := s.needs
	s.unit, s.leaving, s.phase, s.applied = nil, false, 0, inventory.Applied{}
	if !s.planned {
		r.depend(service, nil)
	}
	r.wake(on...)
	for name := range s.neededBy {
		r.wake(name)
	}
}

// note takes over how a service fares.
func (r *relations) note(status report.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of(status.Service)
	if s.phase == status.Phase && s.applied.SameContent(status.Applied) {
		return
	}
	s.phase, s.applied = status.Phase, status.Applied
	for name := range s.neededBy {
		r.wake(name)
	}
}

// wake wakes units. r.mu is held.
func (r *relations) wake(names ...string) {
	for _, name := range names {
		if s := r.services[name]; s != nil && s.unit != nil {
			signal(s.unit.wake)
		}
	}
}

// unmet lists what a service still waits for, in words.
func (r *relations) unmet(service string, on []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if circle := r.path(service, service); circle != nil {
		return []string{fmt.Sprintf("the services wait for each other, so take one dependency out: %s", strings.Join(circle, " depends on "))}
	}
	var all []string
	for _, name := range on {
		if why := r.unready(name); why != "" {
			all = append(all, why)
		}
	}
	return all
}

// unready says why a service is not there yet; empty when it is. r.mu is held.
func (r *relations) unready(name string) string {
	s := r.services[name]
	switch {
	case s == nil || !s.planned:
		return fmt.Sprintf("no service %q is in this cluster's plan", name)
	case s.phase == 0:
		return fmt.Sprintf("service %q was not looked at yet", name)
	case s.phase != report.Healthy:
		return fmt.Sprintf("service %q is %s", name, s.phase)
	case !s.applied.SameContent(s.wanted):
		return fmt.Sprintf("service %q has a change that is not applied yet", name)
	default:
		return ""
	}
}

// path returns the shortest way along dependencies, both ends included; nil when there is none. Of and to may be the same.
// r.mu is held.
func (r *relations) path(of, to string) []string {
	came := map[string]string{}
	for queue := []string{of}; len(queue) > 0; queue = queue[1:] {
		s := r.services[queue[0]]
		if s == nil {
			continue
		}
		for _, name := range s.needs {
			if _, seen := came[name]; seen {
				continue
			}
			came[name] = queue[0]
			if name == to {
				return trail(came, of, to)
			}
			queue = append(queue, name)
		}
	}
	return nil
}

func trail(came map[string]string, of, to string) []string {
	way := []string{to}
	for name := came[to]; name != of; name = came[name] {
		way = append(way, name)
	}
	way = append(way, of)
	slices.Reverse(way)
	return way
}

// needed names the services that have to go before a service that left the plan: those that left it, too, and depend on it.
// Services that depend on each other do not wait.
func (r *relations) needed(service string) (by []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.services[service]
	if s == nil {
		return nil
	}
	for name := range s.neededBy {
		if other := r.services[name]; other.leaving && name != service && r.path(service, name) == nil {
			by = append(by, name)
		}
	}
	slices.Sort(by)
	return by
}
