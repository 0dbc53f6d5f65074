// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func (s *scenario) paused(service plan.Service) report.Status {
	s.t.Helper()
	return s.await(s.t, service.Name, func(got report.Status) bool { return got.Phase == report.Paused })
}

func pauseScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"pause before the first apply": func(s *scenario) {
			s.spec.Paused = true
			s.paused(s.sync(config("app", "1")))
			if s.exists(s.t, "/api/v1/namespaces/"+s.name) {
				s.t.Error("the namespace was made")
			}
			s.spec.Paused = false
			s.healthy(s.sync(config("app", "1")))
		},
		"pause leaves drift and tells of it": func(s *scenario) {
			s.healthy(s.sync(config("app", "1"), config("gone", "1")))
			s.spec.Paused = true
			paused := s.sync(config("app", "1"), config("gone", "1"))
			s.paused(paused)
			s.change("ConfigMap", "app", `{"data":{"value":"by hand"}}`)
			s.request(s.t, http.MethodDelete, s.collection("ConfigMap")+"/gone", "", "")
			s.await(s.t, s.name, func(got report.Status) bool { return got.Phase == report.Paused && got.Counts.Failed == 1 })
			s.absent("ConfigMap/gone")
			s.value("app", "by hand")
			s.spec.Paused = false
			s.healthy(s.sync(config("app", "1"), config("gone", "1"))) // the very content that was applied
			s.value("app", "1")
			s.present("ConfigMap/gone")
		},
		"pause keeps changes and deletions for later": func(s *scenario) {
			s.healthy(s.sync(config("app", "1"), config("old", "1")))
			s.spec.Paused = true
			s.paused(s.sync(config("app", "2"), config("new", "1")))
			s.present("ConfigMap/old")
			s.absent("ConfigMap/new")
			s.value("app", "1")
			s.spec.Paused = false
			s.healthy(s.sync(config("app", "2"), config("new", "1")))
			s.value("app", "2")
			s.absent("ConfigMap/old")
		},
		"pause and a person's sync": func(s *scenario) {
			s.healthy(s.sync(config("app", "1")))
			s.spec.Paused = true
			service := s.again(s.sync(config("app", "2")), "please")
			if err := s.engine.Reconcile(service.Name); err != nil {
				s.t.Fatal(err)
			}
			s.paused(service)
			s.value("app", "1")
		},
		"pause runs no hooks and no tests": func(s *scenario) {
			s.spec.Paused = true
			s.paused(s.sync(config("app", "1"), job("hook", preSync), job("check", "leat.dev/phase=Test")))
			s.absent("ConfigMap/app", "Job/hook", "Job/check")
		},
	}
}

// compared waits for the report of a dry run.
func (s *scenario) compared(service plan.Service, want report.DryRun, changes ...string) report.Status {
	s.t.Helper()
	got := s.await(s.t, service.Name, func(got report.Status) bool {
		return got.DryRun != nil && got.Observed.SpecDigest == service.SpecDigest && got.Observed.Digests[0] == service.Bundles[0].Digest.String()
	})
	var found []string
	for _, c := range got.DryRun.Changes {
		found = append(found, fmt.Sprint(map[report.Change]string{
			report.Adopt: "=", report.Create: "+", report.Update: "~", report.Delete: "-",
		}[c.Change], c.Ref.Kind, "/", c.Ref.Name))
	}
	if diff := cmp.Diff(changes, found); diff != "" {
		s.t.Errorf("changes (-want +got):\n%s", diff)
	}
	report := *got.DryRun
	report.Changes = nil
	if diff := cmp.Diff(want, report); diff != "" {
		s.t.Errorf("counts (-want +got):\n%s", diff)
	}
	return got
}

func (s *scenario) inventory() bool {
	s.t.Helper()
	return s.exists(s.t, "/api/v1/namespaces/leat-system/configmaps/leat-inventory."+s.name)
}

func dryRunScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"dry run writes nothing": func(s *scenario) {
			s.spec.DryRun = true
			got := s.compared(s.sync(config("a", "1"), config("b", "1")), report.DryRun{Created: 2}, "+ConfigMap/a", "+ConfigMap/b")
			if got.Phase != report.Pending || got.Problem != nil {
				s.t.Errorf("got %s, %v, want Pending", got.Phase, got.Problem)
			}
			if s.exists(s.t, "/api/v1/namespaces/"+s.name) || s.inventory() {
				s.t.Error("a namespace or an inventory was made")
			}
		},
		"dry run counts what would be done": func(s *scenario) {
			s.healthy(s.sync(config("changed", "1"), config("same", "1"), config("gone", "1")))
			s.spec.DryRun = true
			got := s.compared(s.sync(config("changed", "2"), config("same", "1"), config("new", "1")),
				report.DryRun{Created: 1, Updated: 1, Deleted: 1, Unchanged: 1}, "-ConfigMap/gone", "~ConfigMap/changed", "+ConfigMap/new")
			if got.Phase != report.Healthy {
				s.t.Errorf("phase: got %s, want Healthy: that is what is applied", got.Phase)
			}
			s.value("changed", "1")
			s.present("ConfigMap/gone")
			s.absent("ConfigMap/new")
			s.spec.DryRun = false
			s.healthy(s.sync(config("changed", "2"), config("same", "1"), config("new", "1")))
			s.value("changed", "2")
			s.absent("ConfigMap/gone")
		},
		"dry run without pruning": func(s *scenario) {
			s.spec.Prune = new(false)
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.spec.DryRun = true
			s.compared(s.sync(config("a", "1")), report.DryRun{Unchanged: 1})
		},
		"dry run leaves drift": func(s *scenario) {
			s.healthy(s.sync(config("a", "1")))
			s.spec.DryRun = true
			service := s.sync(config("a", "1"))
			s.compared(service, report.DryRun{Unchanged: 1})
			s.change("ConfigMap", "a", `{"data":{"value":"by hand"}}`)
			s.again(service, "look again")
			s.await(s.t, s.name, func(got report.Status) bool { return got.DryRun != nil && got.DryRun.Updated == 1 })
			s.value("a", "by hand")
			s.spec.DryRun = false
			s.healthy(s.sync(config("a", "1")))
			s.value("a", "1")
		},
		"dry run tells nothing of what a Secret holds": func(s *scenario) {
			secret := func(value string) string {
				return manifest("v1", "Secret", "s", map[string]any{"stringData": map[string]any{"password": value}})
			}
			s.healthy(s.sync(secret("old-one")))
			s.spec.DryRun = true
			got := s.compared(s.sync(secret("new-one")), report.DryRun{Updated: 1}, "~Secret/s")
			if text := fmt.Sprintf("%+v", got); strings.Contains(text, "new-one") || strings.Contains(text, "old-one") {
				s.t.Errorf("the status holds a value: %s", text)
			}
		},
		"dry run of what would be refused": func(s *scenario) {
			s.sync(s.gatedDeployment("web"))
			s.ready("web", 1)
			s.await(s.t, s.name, func(got report.Status) bool { return got.Phase == report.Healthy })
			s.spec.DryRun = true
			got := s.fails(s.sync(deploymentWith("web", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"other": "x"}}}, nil), config("a", "1")),
				reason.ApplyRejected, "compare")
			if got.DryRun != nil {
				s.t.Errorf("report: got %+v, want none", got.DryRun)
			}
			s.absent("ConfigMap/a")
		},
		"dry run of a kind that it brings": func(s *scenario) {
			plural := strings.ReplaceAll(s.name, "-", "")
			definition := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.dry.test"},
				"spec":{"group":"dry.test","scope":"Namespaced","names":{"kind":"Dry","plural":%[1]q},"versions":[{"name":"v1","served":true,
				"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, plural)
			s.spec.DryRun = true
			s.compared(s.sync(definition, manifest("dry.test/v1", "Dry", "d", nil)), report.DryRun{Created: 2},
				"+CustomResourceDefinition/"+plural+".dry.test", "+Dry/d")
		},
		"dry run adopts nothing": func(s *scenario) {
			s.create("ConfigMap", config("theirs", "1"))
			s.create("ConfigMap", config("other", "1"))
			s.spec.DryRun = true
			s.compared(s.sync(config("theirs", "1"), config("other", "1", "example.com/note=new")), report.DryRun{Updated: 1, Unchanged: 1}, "~ConfigMap/other", "=ConfigMap/theirs")
			if labels := at(s.get("ConfigMap", "theirs"), "metadata", "labels"); labels != nil {
				s.t.Errorf("labels: got %v, want none", labels)
			}
		},
		"dry run runs no hooks and no tests": func(s *scenario) {
			s.spec.DryRun = true
			s.spec.Policy.Tests = &syncpolicy.Tests{}
			s.compared(s.sync(config("a", "1"), job("hook", preSync), job("check", "leat.dev/phase=Test")), report.DryRun{Created: 1}, "+ConfigMap/a")
		},
		"dry run waits for nobody": func(s *scenario) {
			s.spec.DryRun = true
			s.after("nobody-of-that-name")
			s.compared(s.sync(config("a", "1")), report.DryRun{Created: 1}, "+ConfigMap/a")
		},
		"dry run of a service that leaves": func(s *scenario) {
			s.healthy(s.sync(config("a", "1")))
			s.spec.DryRun = true
			s.compared(s.sync(config("a", "1")), report.DryRun{Unchanged: 1})
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.released("ConfigMap", "a") // a dry run changes nothing, also when it ends
		},
	}
}
