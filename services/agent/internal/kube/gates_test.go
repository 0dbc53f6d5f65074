// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestGates runs one engine on one API server without controllers: objects stay as they are
// written, and a scenario decides when a Deployment is ready.
func TestGates(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	scenarios := map[string]func(*scenario){}
	for _, some := range []map[string]func(*scenario){
		dependencyScenarios(), objectScenarios(), windowScenarios(), pauseScenarios(), dryRunScenarios(),
	} {
		maps.Copy(scenarios, some)
	}
	concurrently(t, c, scenarios)
}

// waits blocks until the service waits for a reason, with words in the problem's message.
func (s *scenario) waits(service plan.Service, reason reason.Reason, words ...string) {
	s.t.Helper()
	s.await(s.t, service.Name, func(got report.Status) bool {
		if got.Phase != report.Pending || got.Problem == nil || got.Problem.Reason != reason || got.Observed.SpecDigest != service.SpecDigest {
			return false
		}
		for _, word := range words {
			if !strings.Contains(got.Problem.Message, word) {
				return false
			}
		}
		return true
	})
}

// after makes the next service depend on services of the scenario.
func (s *scenario) after(services ...string) {
	s.spec.Policy.DependsOn = nil
	for _, name := range services {
		s.spec.Policy.DependsOn = append(s.spec.Policy.DependsOn, syncpolicy.Dependency{Service: name})
	}
}

// afterObject makes the next service depend on an object.
func (s *scenario) afterObject(apiVersion, kind, namespace, name, condition string) {
	s.spec.Policy.DependsOn = []syncpolicy.Dependency{{
		Object: &syncpolicy.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}, Condition: condition,
	}}
}

// ready writes the status that controllers would write to a Deployment.
func (s *scenario) ready(name string, replicas int) {
	s.t.Helper()
	s.appears("Deployment", name)
	status := fmt.Sprintf(`{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":%d,"availableReplicas":%[1]d,
		"conditions":[{"type":"Available","status":"True"}]}}`, replicas)
	path := s.collection("Deployment") + "/" + name + "/status"
	if code, o := s.request(s.t, http.MethodPatch, path, mergePatch, status); code != http.StatusOK {
		s.t.Fatalf("patch status: got %d %v, want 200", code, o["message"])
	}
}

// value returns the value of a ConfigMap.
func (s *scenario) value(name, want string) {
	s.t.Helper()
	s.until("ConfigMap", name, func(o map[string]any) bool { return at(o, "data", "value") == want })
}

const waiting = reason.DependencyNotReady

func dependencyScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"gates service that is not ready yet": func(s *scenario) {
			s.serve(s.name+"-db", s.gatedDeployment("db"))
			s.after(s.name + "-db")
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, s.name+`-db" is Progressing`)
			s.absent("ConfigMap/app")
			s.ready("db", 1)
			s.healthy(app)
			s.present("ConfigMap/app")
		},
		"gates chain of three": func(s *scenario) {
			s.after(s.name + "-b")
			a := s.sync(config("a", "1"))
			s.waits(a, waiting, "no service")
			s.after(s.name + "-c")
			b := s.serve(s.name+"-b", config("b", "1"))
			s.waits(b, waiting, "no service")
			s.waits(a, waiting, s.name+`-b" is Pending`)
			s.after()
			s.serve(s.name+"-c", config("c", "1"))
			s.healthy(a)
			s.healthy(b)
		},
		"gates circle of two": func(s *scenario) {
			s.after(s.name + "-b")
			a := s.sync(config("a", "1"))
			s.after(s.name)
			b := s.serve(s.name+"-b", config("b", "1"))
			s.waits(a, waiting, fmt.Sprintf("%s depends on %[1]s-b depends on %[1]s", s.name))
			s.waits(b, waiting, "depends on")
			s.absent("ConfigMap/a", "ConfigMap/b")
		},
		"gates a change waits and what is applied stays": func(s *scenario) {
			db := s.serve(s.name+"-db", s.gatedDeployment("db"))
			s.ready("db", 1)
			s.healthy(db)
			s.after(db.Name)
			app := s.sync(config("app", "1"))
			s.healthy(app)
			s.ready("db", 0)
			s.await(s.t, db.Name, func(got report.Status) bool { return got.Phase != report.Healthy })
			s.healthy(app) // there is no further question
			app = s.sync(config("app", "2"))
			s.waits(app, waiting)
			s.change("ConfigMap", "app", `{"data":{"value":"by hand"}}`)
			s.value("app", "1")
			s.ready("db", 1)
			s.healthy(app)
			s.value("app", "2")
		},
		"gates after a restart": func(s *scenario) {
			s.after(s.name + "-nobody")
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, "no service")
			s.after()
			s.serve(s.name+"-nobody", config("nobody", "1"))
			s.healthy(app)
		},
		"gates removal in reverse order": func(s *scenario) {
			db := s.serve(s.name+"-db", config("db", "1"))
			s.healthy(db)
			s.after(db.Name)
			hold := `{"metadata":{"name":"app","finalizers":["example.test/hold"]},"apiVersion":"v1","kind":"ConfigMap"}`
			app := s.sync(hold)
			s.healthy(app)
			s.drop(app.Name, db.Name)
			s.until("ConfigMap", "app", func(o map[string]any) bool { return at(o, "metadata", "deletionTimestamp") != nil })
			s.change("ConfigMap", "app", `{"metadata":{"finalizers":null}}`)
			s.gone(s.t, app.Name)
			s.gone(s.t, db.Name)
			s.absent("ConfigMap/app", "ConfigMap/db")
		},
	}
}

func objectScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"gates object that does not exist": func(s *scenario) {
			s.afterObject("v1", "ConfigMap", "", "go", "")
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, fmt.Sprintf("ConfigMap %s/go does not exist", s.name))
			s.absent("ConfigMap/app")
			s.create("ConfigMap", config("go", "x"))
			s.healthy(app)
		},
		"gates object that is not healthy": func(s *scenario) {
			s.create("Deployment", s.gatedDeployment("theirs"))
			s.afterObject("apps/v1", "Deployment", s.name, "theirs", "")
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, fmt.Sprintf("Deployment.apps %s/theirs is Progressing", s.name))
			s.ready("theirs", 1)
			s.healthy(app)
		},
		"gates condition": func(s *scenario) {
			s.create("ConfigMap", config("go", "no"))
			s.afterObject("v1", "ConfigMap", "", "go", `self.data.value == "yes"`)
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, "does not meet")
			s.change("ConfigMap", "go", `{"data":{"value":"yes"}}`)
			s.healthy(app)
		},
		"gates condition on a field that comes later": func(s *scenario) {
			s.create("ConfigMap", config("go", "x"))
			s.afterObject("v1", "ConfigMap", "", "go", `self.data.later == "1"`)
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, "does not meet")
			s.change("ConfigMap", "go", `{"data":{"later":"1"}}`)
			s.healthy(app)
		},
		"gates condition that cannot be read": func(s *scenario) {
			s.afterObject("v1", "ConfigMap", "", "go", `self.data.(`)
			s.waits(s.sync(config("app", "1")), waiting, "cannot be read")
		},
		"gates object of the whole cluster": func(s *scenario) {
			s.afterObject("v1", "Namespace", "", s.name+"-later", "")
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, "Namespace")
			s.request(s.t, http.MethodPost, "/api/v1/namespaces", "application/json", fmt.Sprintf(`{"metadata":{"name":"%s-later"}}`, s.name))
			s.healthy(app)
		},
		"gates object in another namespace": func(s *scenario) {
			s.afterObject("v1", "ConfigMap", "kube-system", s.name, "")
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, "ConfigMap kube-system/"+s.name+" does not exist")
			s.request(s.t, http.MethodPost, "/api/v1/namespaces/kube-system/configmaps", "application/json", config(s.name, "x"))
			s.healthy(app)
		},
		"gates object that comes and goes": func(s *scenario) {
			s.afterObject("v1", "ConfigMap", "", "go", `self.data.value == "yes"`)
			app := s.sync(config("app", "1"))
			s.create("ConfigMap", config("go", "no"))
			s.waits(app, waiting, "does not meet")
			s.request(s.t, http.MethodDelete, s.collection("ConfigMap")+"/go", "", "")
			s.waits(app, waiting, "does not exist")
			s.create("ConfigMap", config("go", "yes"))
			s.healthy(app)
		},
		"gates kind that does not exist": func(s *scenario) {
			plural := strings.ReplaceAll(s.name, "-", "")
			s.afterObject("gates.test/v1", "Gate"+plural, "", "go", `has(self.spec)`)
			app := s.sync(config("app", "1"))
			s.waits(app, waiting, "does not exist")
			definition := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.gates.test"},
				"spec":{"group":"gates.test","scope":"Namespaced","names":{"kind":"Gate%[1]s","plural":%[1]q},"versions":[{"name":"v1","served":true,
				"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, plural)
			s.spec.Policy = syncpolicy.Policy{}
			s.healthy(s.serve(s.name+"-kind", definition, fmt.Sprintf(`{"apiVersion":"gates.test/v1","kind":"Gate%s","metadata":{"name":"go"},"spec":{}}`, plural)))
			s.healthy(app)
		},
		"gates a newer entry takes the place of one that waits": func(s *scenario) {
			s.afterObject("v1", "ConfigMap", "", "go", "")
			s.waits(s.sync(config("first", "1")), waiting)
			s.spec.Policy = syncpolicy.Policy{}
			s.healthy(s.sync(config("second", "1")))
			s.absent("ConfigMap/first")
		},
	}
}

// allDay is a window that is open now, until long after the test.
func allDay() syncpolicy.Window {
	return syncpolicy.Window{Schedule: "0 0 * * *", Duration: 48 * time.Hour}
}

// farAway is a window that is not open for a while.
func farAway() syncpolicy.Window {
	day := time.Now().UTC().AddDate(0, 0, 100)
	return syncpolicy.Window{Schedule: fmt.Sprintf("0 0 %d %d *", day.Day(), day.Month()), Duration: time.Hour}
}

func windowScenarios() map[string]func(*scenario) {
	const shut = reason.SyncWindowClosed
	deny, strict := allDay(), allDay()
	deny.Deny, strict.Deny, strict.Strict = true, true, true
	return map[string]func(*scenario){
		"windows an open one lets through": func(s *scenario) {
			s.spec.Policy.Windows = []syncpolicy.Window{farAway(), allDay()}
			s.healthy(s.sync(config("app", "1")))
		},
		"windows a closed one makes wait and a person passes": func(s *scenario) {
			s.spec.Policy.Windows = []syncpolicy.Window{farAway()}
			app := s.sync(config("app", "1"))
			s.waits(app, shut, "next window, which opens at")
			s.absent("ConfigMap/app")
			s.healthy(s.again(app, "please"))
		},
		"windows a person does not pass a strict one": func(s *scenario) {
			window := farAway()
			window.Strict = true
			s.spec.Policy.Windows = []syncpolicy.Window{window}
			app := s.again(s.sync(config("app", "1")), "please")
			s.waits(app, shut)
			s.absent("ConfigMap/app")
			s.spec.Policy.Windows = nil
			s.healthy(s.sync(config("app", "1")))
		},
		"windows one that denies keeps changes out and puts drift right": func(s *scenario) {
			s.healthy(s.sync(config("app", "1")))
			s.spec.Policy.Windows = []syncpolicy.Window{deny}
			s.waits(s.sync(config("app", "2")), shut)
			s.change("ConfigMap", "app", `{"data":{"value":"by hand"}}`)
			s.value("app", "1")
		},
		"windows one that denies strictly leaves drift": func(s *scenario) {
			s.healthy(s.sync(config("app", "1")))
			s.spec.Policy.Windows = []syncpolicy.Window{strict}
			s.waits(s.sync(config("app", "2")), shut)
			s.change("ConfigMap", "app", `{"data":{"value":"by hand"}}`)
			s.request(s.t, http.MethodDelete, s.collection("ConfigMap")+"/app", "", "")
			s.await(s.t, s.name, func(got report.Status) bool { return got.Counts.Failed == 1 })
			s.absent("ConfigMap/app")
			s.spec.Policy.Windows = nil
			s.healthy(s.sync(config("app", "2")))
			s.value("app", "2")
		},
	}
}
