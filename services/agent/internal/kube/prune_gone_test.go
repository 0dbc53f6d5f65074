// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const (
	holdBack = `{"metadata":{"finalizers":["example.test/hold"]}}`
	letGo    = `{"metadata":{"finalizers":null}}`
)

// departures records the names of the objects that leave a service, in order, until stop is called.
func (s *scenario) departures(service string) (stop func() []string) {
	s.t.Helper()
	events, end := s.engine.Subscribe(service)
	return func() []string {
		end()
		var names []string
		for event := range events {
			if event.Object != nil && event.Message == "pruned" {
				names = append(names, event.Object.Name)
			}
		}
		return names
	}
}

func goneScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"a prune waits until all is gone": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.change("ConfigMap", "b", holdBack)
			service := s.sync(config("a", "1"))
			s.await(s.t, s.name, func(got report.Status) bool {
				return got.Phase == report.Syncing && len(got.Objects) == 1 && got.Objects[0].Health.State == health.Terminating
			})
			s.change("ConfigMap", "b", letGo)
			s.healthy(service)
			s.absent("ConfigMap/b")
		},
		"what does not go is named with what holds it": func(s *scenario) {
			s.spec.Policy.Deletion.Timeout = deletionPatience
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.change("ConfigMap", "b", holdBack)
			service := s.sync(config("a", "1"))
			got := s.fails(service, reason.DeadlineExceeded, "b", "example.test/hold", deletionPatience.String())
			if words := s.refused(got, "b"); !strings.Contains(words, "example.test/hold") {
				s.t.Errorf("b: got %q, want the finalizer named", words)
			}
			s.change("ConfigMap", "b", letGo)
			s.healthy(service)
		},
		"earlier waves go last": func(s *scenario) {
			s.spec.Policy.Deletion.Timeout = deletionPatience
			s.healthy(s.sync(config("a", "1"), config("early", "1"), config("late", "1", "leat.dev/wave=1")))
			s.change("ConfigMap", "late", holdBack)
			service := s.sync(config("a", "1"))
			s.fails(service, reason.DeadlineExceeded, "late")
			s.present("ConfigMap/early")
			s.change("ConfigMap", "late", letGo)
			s.healthy(service)
			s.absent("ConfigMap/early", "ConfigMap/late")
		},
		"waves go in reverse": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("w0", "1"), config("w1", "1", "leat.dev/wave=1"), config("w2", "1", "leat.dev/wave=2"), config("w-1", "1", "leat.dev/wave=-1")))
			stop := s.departures(s.name)
			s.healthy(s.sync(config("a", "1")))
			if got, want := stop(), []string{"w2", "w1", "w0", "w-1"}; !slices.Equal(got, want) {
				s.t.Errorf("order: got %v, want %v", got, want)
			}
		},
		"what runs goes before what it uses": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("settings", "1"), job("work"), manifest("v1", "ServiceAccount", "identity", map[string]any{})))
			stop := s.departures(s.name)
			s.healthy(s.sync(config("a", "1")))
			got := stop()
			slices.Sort(got)
			if want := []string{"identity", "settings", "work"}; !slices.Equal(got, want) {
				s.t.Errorf("gone: got %v, want %v", got, want)
			}
		},
		"a newer commit ends the wait for what goes": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.change("ConfigMap", "b", holdBack)
			s.sync(config("a", "1"))
			s.until("ConfigMap", "b", func(o map[string]any) bool { return at(o, "metadata", "deletionTimestamp") != nil })
			s.sync(config("a", "2"))
			s.until("ConfigMap", "a", func(o map[string]any) bool { return at(o, "data", "value") == "2" })
			s.change("ConfigMap", "b", letGo)
			s.healthy(s.sync(config("a", "3")))
			s.absent("ConfigMap/b")
		},
	}
}

// sets lists the ReplicaSets of the scenario.
func (s *scenario) sets() int {
	s.t.Helper()
	_, list := s.request(s.t, http.MethodGet, "/apis/apps/v1/namespaces/"+s.name+"/replicasets", "", "")
	items, _ := list["items"].([]any)
	return len(items)
}

func propagationScenarios() map[string]func(*scenario) {
	deployed := func(s *scenario, how syncpolicy.Propagation) {
		s.t.Helper()
		s.spec.Policy.Deletion.Propagation = how
		s.healthy(s.sync(config("a", "1"), deploymentWith("web", map[string]any{}, nil)))
		s.healthy(s.sync(config("a", "1")))
		s.absent("Deployment/web")
	}
	return map[string]func(*scenario){
		"dependents go first": func(s *scenario) {
			deployed(s, syncpolicy.DeleteForeground)
			if got := s.sets(); got != 0 {
				s.t.Errorf("replica sets: got %d when the deployment was gone, want none", got)
			}
		},
		"dependents go afterwards": func(s *scenario) {
			deployed(s, syncpolicy.DeleteBackground)
		},
		"dependents stay": func(s *scenario) {
			deployed(s, syncpolicy.DeleteOrphan)
			if got := s.sets(); got != 1 {
				s.t.Errorf("replica sets: got %d, want the one that was", got)
			}
		},
	}
}

func removalScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"a service goes with its objects": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.absent("ConfigMap/a", "ConfigMap/b")
			s.leaves("/api/v1/namespaces/leat-system/configmaps/leat-inventory." + s.name)
		},
		"a service goes in reverse": func(s *scenario) {
			s.healthy(s.sync(config("w0", "1"), config("w1", "1", "leat.dev/wave=1"), config("w2", "1", "leat.dev/wave=2")))
			stop := s.departures(s.name)
			s.drop(s.name)
			s.gone(s.t, s.name)
			if got, want := stop(), []string{"w2", "w1", "w0"}; !slices.Equal(got, want) {
				s.t.Errorf("order: got %v, want %v", got, want)
			}
		},
		"a service that is detached leaves its objects": func(s *scenario) {
			s.spec.Policy.Deletion.Detach = true
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.healthy(s.sync(config("a", "1"))) // that concerns the end of the service only
			s.absent("ConfigMap/b")
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.released("ConfigMap", "a")
			s.leaves("/api/v1/namespaces/leat-system/configmaps/leat-inventory." + s.name)
		},
		"a service that does not prune leaves its objects": func(s *scenario) {
			s.spec.Prune = new(false)
			s.healthy(s.sync(config("a", "1")))
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.released("ConfigMap", "a")
		},
		"the last word counts": func(s *scenario) {
			s.healthy(s.sync(config("a", "1")))
			s.spec.Policy.Deletion.Detach = true
			s.fails(s.sync("kind: ["), reason.ManifestInvalid)
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.released("ConfigMap", "a")
		},
		"an opt-out counts when the service goes": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1", "argocd.argoproj.io/sync-options=Delete=false")))
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.absent("ConfigMap/a")
			s.released("ConfigMap", "b")
		},
		"a service waits for what does not go": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1", "leat.dev/wave=1")))
			s.change("ConfigMap", "b", holdBack)
			s.drop(s.name)
			s.until("ConfigMap", "b", func(o map[string]any) bool { return at(o, "metadata", "deletionTimestamp") != nil })
			s.present("ConfigMap/a")
			s.change("ConfigMap", "b", letGo)
			s.gone(s.t, s.name)
			s.absent("ConfigMap/a")
		},
		"a large service goes without a question": func(s *scenario) {
			s.healthy(s.sync(configs(12)...))
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.absent("ConfigMap/c0", "ConfigMap/c11")
		},
	}
}

func ownershipScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"the first keeps what two want": func(s *scenario) {
			s.healthy(s.sync(config("x", "first")))
			second := s.serve(s.name+"-2", config("x", "second"))
			s.fails(second, reason.ObjectClaimed, s.name)
			if got := at(s.get("ConfigMap", "x"), "data", "value"); got != "first" {
				s.t.Errorf("value: got %v, want that of the first", got)
			}
		},
		"the second has it when the first lets go": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("x", "1")))
			second := s.serve(s.name+"-2", config("x", "2"))
			s.fails(second, reason.ObjectClaimed)
			uid := s.uid("ConfigMap", "x")
			s.healthy(s.sync(config("a", "1")))
			s.healthy(second)
			s.passed("x", uid, s.name+"-2")
		},
		"the second has it when the first goes": func(s *scenario) {
			s.healthy(s.sync(config("x", "1")))
			second := s.serve(s.name+"-2", config("x", "2"))
			s.fails(second, reason.ObjectClaimed)
			uid := s.uid("ConfigMap", "x")
			s.drop(s.name)
			s.healthy(second)
			s.gone(s.t, s.name)
			s.passed("x", uid, s.name+"-2")
		},
		"a renamed service keeps its objects": func(s *scenario) {
			old := s.sync(config("x", "1"), config("y", "1"))
			s.healthy(old)
			x, y := s.uid("ConfigMap", "x"), s.uid("ConfigMap", "y")
			renamed := old
			renamed.Name, renamed.UID = s.name+"-2", "uid-2"
			s.mu.Lock()
			delete(s.services, s.name)
			s.services[renamed.Name] = renamed
			s.mu.Unlock()
			s.plan()
			s.gone(s.t, s.name)
			s.healthy(renamed)
			s.passed("x", x, renamed.Name)
			s.passed("y", y, renamed.Name)
		},
		"two services swap": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("x", "1")))
			s.healthy(s.serve(s.name+"-2", config("b", "1"), config("y", "1")))
			x, y := s.uid("ConfigMap", "x"), s.uid("ConfigMap", "y")
			first := s.sync(config("a", "1"), config("y", "2"))
			second := s.serve(s.name+"-2", config("b", "1"), config("x", "2"))
			s.healthy(first)
			s.healthy(second)
			s.passed("x", x, second.Name)
			s.passed("y", y, first.Name)
		},
	}
}

// passed checks that an object was not recreated, and belongs to a service.
func (s *scenario) passed(name, uid, service string) {
	s.t.Helper()
	if got := s.uid("ConfigMap", name); got != uid {
		s.t.Errorf("%s: got uid %s, want %s: it was deleted and created again", name, got, uid)
	}
	if got := s.label("ConfigMap", name); got != service {
		s.t.Errorf("%s: got label %q, want %q", name, got, service)
	}
}

func strangerScenarios() map[string]func(*scenario) {
	replaced := func(s *scenario, manifest string) {
		s.t.Helper()
		s.spec.Policy.Drift = syncpolicy.DriftOff
		s.healthy(s.sync(config("a", "1"), config("b", "1")))
		s.request(s.t, http.MethodDelete, s.collection("ConfigMap")+"/b", "", "")
		if manifest != "" {
			s.create("ConfigMap", manifest)
		}
		s.healthy(s.sync(config("a", "2")))
	}
	return map[string]func(*scenario){
		"an object that somebody else created again stays": func(s *scenario) {
			replaced(s, config("b", "theirs"))
			s.present("ConfigMap/b")
		},
		"a copy of the label makes nothing Leat's": func(s *scenario) {
			copied := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","labels":{%q:%q}}}`, k8s.ServiceLabel, s.name)
			replaced(s, copied)
			s.present("ConfigMap/b")
		},
		"what is gone already is no failure": func(s *scenario) {
			replaced(s, "")
			s.absent("ConfigMap/b")
		},
		"an object without the label is still Leat's": func(s *scenario) {
			s.spec.Policy.Drift = syncpolicy.DriftOff
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.change("ConfigMap", "b", fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, k8s.ServiceLabel))
			s.healthy(s.sync(config("a", "2")))
			s.absent("ConfigMap/b")
		},
		"what somebody else deletes at the same time": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.change("ConfigMap", "b", holdBack)
			s.request(s.t, http.MethodDelete, s.collection("ConfigMap")+"/b", "", "")
			service := s.sync(config("a", "2"))
			s.change("ConfigMap", "b", letGo)
			s.healthy(service)
			s.absent("ConfigMap/b")
		},
	}
}
