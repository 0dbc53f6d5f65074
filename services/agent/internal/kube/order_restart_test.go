// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// restarted is the state of a service when the agent ends, and the expected result afterwards.
type restarted struct {
	before func(s *scenario) plan.Service
	idle   func(s *scenario) // while no agent runs; nil does nothing
	after  func(s *scenario, service plan.Service)
}

// testOrderRestart ends the agent during hooks, waves and removals.
func testOrderRestart(t *testing.T, c *cluster) {
	t.Helper()
	scenarios, services, uids := map[string]*scenario{}, map[string]plan.Service{}, map[string]string{}
	for name, r := range restarts(uids) {
		scenarios[name] = newScenario(t, c, name)
		services[name] = r.before(scenarios[name])
	}
	c.stop()
	for name, r := range restarts(uids) {
		if r.idle != nil {
			r.idle(scenarios[name])
		}
	}
	c.restart(t)
	for name, r := range restarts(uids) {
		t.Run(name, func(t *testing.T) {
			s := scenarios[name]
			s.t = t
			r.after(s, services[name])
		})
	}
}

// restarts are the cases; uids are the objects' earlier UIDs, by scenario.
func restarts(uids map[string]string) map[string]restarted {
	same := func(s *scenario, kind, name string) {
		s.t.Helper()
		if got := s.uid(kind, name); got != uids[s.name] {
			s.t.Errorf("%s %s: got another one after the restart, want the same", kind, name)
		}
	}
	return map[string]restarted{
		"in the middle of a hook": {
			before: func(s *scenario) plan.Service {
				service := s.sync(s.gatedJob("migrate", preSync), config("a", "1"))
				uids[s.name] = s.appears("Job", "migrate")
				return service
			},
			after: func(s *scenario, service plan.Service) {
				s.absent("ConfigMap/a")
				s.open()
				s.healthy(service)
				same(s, "Job", "migrate")
			},
		},
		"a hook ends while no agent runs": {
			before: func(s *scenario) plan.Service {
				service := s.sync(s.gatedJob("migrate", preSync, "leat.dev/hook-delete-policy=HookSucceeded"), config("a", "1"))
				s.appears("Job", "migrate")
				return service
			},
			idle: func(s *scenario) {
				s.open()
				s.until("Job", "migrate", func(o map[string]any) bool { return at(o, "status", "succeeded") != nil })
			},
			after: func(s *scenario, service plan.Service) {
				s.healthy(service)
				s.vanishes("Job", "migrate")
			},
		},
		"a hook fails while no agent runs": {
			before: func(s *scenario) plan.Service {
				service := s.sync(failingJob("migrate", preSync), config("a", "1"))
				uids[s.name] = s.appears("Job", "migrate")
				return service
			},
			idle: func(s *scenario) {
				s.until("Job", "migrate", func(o map[string]any) bool { return at(o, "status", "conditions") != nil })
			},
			after: func(s *scenario, service plan.Service) {
				s.fails(service, reason.HookFailed, "migrate failed")
				same(s, "Job", "migrate")
				s.absent("ConfigMap/a")
			},
		},
		"in the middle of a wave, its hooks deleted": {
			before: func(s *scenario) plan.Service {
				service := s.sync(job("migrate", preSync, "leat.dev/hook-delete-policy=HookSucceeded"), s.gatedDeployment("web"), config("after", "1", "leat.dev/wave=1"))
				uids[s.name] = s.appears("Deployment", "web")
				s.vanishes("Job", "migrate")
				return service
			},
			after: func(s *scenario, service plan.Service) {
				s.await(s.t, service.Name, func(got report.Status) bool { return got.Counts.Progressing > 0 })
				s.absent("ConfigMap/after", "Job/migrate")
				s.open()
				s.healthy(service)
				s.absent("Job/migrate")
				same(s, "Deployment", "web")
			},
		},
		"a hook whose name is generated": {
			before: func(s *scenario) plan.Service {
				nameless := strings.Replace(s.gatedJob("migrate", preSync), `"name":"migrate"`, `"generateName":"migrate-"`, 1)
				service := s.sync(nameless, config("a", "1"))
				s.some("Job")
				uids[s.name] = s.jobs()[0]
				return service
			},
			after: func(s *scenario, service plan.Service) {
				s.open()
				s.healthy(service)
				if got := s.jobs(); len(got) != 1 || got[0] != uids[s.name] {
					s.t.Errorf("jobs: got %v, want %s", got, uids[s.name])
				}
			},
		},
		"when all is done": {
			before: func(s *scenario) plan.Service {
				service := s.sync(job("migrate", preSync), config("a", "1"))
				s.healthy(service)
				uids[s.name] = s.uid("Job", "migrate")
				return service
			},
			after: func(s *scenario, service plan.Service) {
				s.healthy(service)
				s.refresh(service)
				same(s, "Job", "migrate")
			},
		},
		"in the middle of a removal": {
			before: func(s *scenario) plan.Service {
				service := s.sync(config("a", "1"), s.gatedJob("bye", "leat.dev/phase=PreDelete"))
				s.healthy(service)
				s.drop(s.name)
				uids[s.name] = s.appears("Job", "bye")
				return service
			},
			after: func(s *scenario, _ plan.Service) {
				s.present("ConfigMap/a")
				same(s, "Job", "bye")
				s.open()
				s.vanishes("ConfigMap", "a")
				s.vanishes("Job", "bye")
			},
		},
	}
}
