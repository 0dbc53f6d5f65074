// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
)

const recreate = "leat.dev/recreate=enabled"

// kindChange is a change of an object that the API server rejects, for any reason.
type kindChange struct {
	kind, field string
	of          func(value string, annotations ...string) string
}

func immutables() map[string]kindChange {
	return map[string]kindChange{
		"Job template": {"Job", "spec.template", func(value string, annotations ...string) string {
			spec := pods(nil, "Never")
			spec["hostname"] = value
			return jobWith("it", map[string]any{"template": map[string]any{"spec": spec}}, annotations...)
		}},
		"Deployment selector": {"Deployment", "spec.selector", func(value string, annotations ...string) string {
			labels := map[string]any{"app": "it", "value": value}
			return deploymentWith("it", map[string]any{
				"selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods(nil, "")},
			}, nil, annotations...)
		}},
		"StatefulSet service": {"StatefulSet", "spec", func(value string, annotations ...string) string {
			labels := map[string]any{"app": "it"}
			return manifest("apps/v1", "StatefulSet", "it", map[string]any{"spec": map[string]any{
				"serviceName": value, "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods(nil, "")},
			}}, annotations...)
		}},
		"Service address": {"Service", "spec.", func(value string, annotations ...string) string {
			spec := map[string]any{"ports": []any{map[string]any{"port": 80}}, "clusterIP": "None"}
			if value == "two" {
				delete(spec, "clusterIP")
				spec["clusterIP"], spec["type"] = "10.0.77.7", "ClusterIP"
			}
			return manifest("v1", "Service", "it", map[string]any{"spec": spec}, annotations...)
		}},
		"RoleBinding role": {"RoleBinding", "roleRef", func(value string, annotations ...string) string {
			return manifest("rbac.authorization.k8s.io/v1", "RoleBinding", "it", map[string]any{
				"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": value},
			}, annotations...)
		}},
		"ConfigMap that is immutable": {"ConfigMap", "data", func(value string, annotations ...string) string {
			return manifest("v1", "ConfigMap", "it", map[string]any{"immutable": true, "data": map[string]any{"value": value}}, annotations...)
		}},
		"Secret that is immutable": {"Secret", "data", func(value string, annotations ...string) string {
			return manifest("v1", "Secret", "it", map[string]any{"immutable": true, "data": map[string]any{"value": map[string]string{"one": "b25l", "two": "dHdv"}[value]}}, annotations...)
		}},
		"Secret type": {"Secret", "type", func(value string, annotations ...string) string {
			return manifest("v1", "Secret", "it", map[string]any{"type": "order.test/" + value}, annotations...)
		}},
		"Pod image pull policy": {"Pod", "spec", func(value string, annotations ...string) string {
			spec := pods(nil, "Always")
			spec["hostname"] = value
			return manifest("v1", "Pod", "it", map[string]any{"spec": spec}, annotations...)
		}},
		"field that a definition protects": {"Widget", "spec.size", func(value string, annotations ...string) string {
			return widget("it", len(value)+map[string]int{"one": 1, "two": 2}[value], annotations...)
		}},
	}
}

func recreateScenarios() map[string]func(*scenario) {
	scenarios := map[string]func(*scenario){
		"recreate by the service's policy": func(s *scenario) {
			s.spec.Policy.Recreate = true
			s.recreated(immutables()["RoleBinding role"])
		},
		"recreate against the policy": func(s *scenario) {
			s.spec.Policy.Recreate = true
			of := immutables()["RoleBinding role"].of
			s.healthy(s.sync(of("one", "leat.dev/recreate=disabled")))
			before := s.uid("RoleBinding", "it")
			s.fails(s.sync(of("two", "leat.dev/recreate=disabled")), reason.ApplyRejected, "roleRef")
			if got := s.uid("RoleBinding", "it"); got != before {
				s.t.Errorf("got another object, want the same")
			}
		},
		"recreate as Argo CD would": func(s *scenario) {
			s.recreated(immutables()["Job template"], "argocd.argoproj.io/sync-options=Force=true,Replace=true")
		},
		"a volume claim is never recreated": func(s *scenario) {
			claim := func(class string) string {
				return manifest("v1", "PersistentVolumeClaim", "data", map[string]any{"spec": map[string]any{
					"accessModes": []any{"ReadWriteOnce"}, "storageClassName": class,
					"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
				}}, recreate)
			}
			s.healthy(s.sync(claim("kwok-volume")))
			before := s.uid("PersistentVolumeClaim", "data")
			s.fails(s.sync(claim("other")), reason.ApplyRejected, "never recreated")
			if got := s.uid("PersistentVolumeClaim", "data"); got != before {
				s.t.Errorf("got another claim, want the same")
			}
		},
		"an object that Leat has not made is never recreated": func(s *scenario) {
			of := immutables()["RoleBinding role"].of
			s.create("RoleBinding", of("one"))
			before := s.uid("RoleBinding", "it")
			s.spec.ForceConflicts = true
			s.fails(s.sync(of("two", recreate)), reason.ApplyRejected, "Leat has not made it")
			if got := s.uid("RoleBinding", "it"); got != before {
				s.t.Errorf("got another object, want the same")
			}
		},
		"an invalid object is not recreated": func(s *scenario) {
			s.healthy(s.sync(deploymentWith("it", nil, nil, recreate)))
			before := s.uid("Deployment", "it")
			bad := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"no": "match"}}}
			s.fails(s.sync(deploymentWith("it", bad, nil, recreate)), reason.ApplyRejected)
			if got := s.uid("Deployment", "it"); got != before {
				s.t.Errorf("got another object, want the same: the manifest is wrong")
			}
		},
		"a finalizer holds what is recreated": func(s *scenario) {
			s.spec.Policy.Deletion.Timeout = time.Second
			of := immutables()["RoleBinding role"].of
			s.healthy(s.sync(of("one", recreate)))
			s.change("RoleBinding", "it", `{"metadata":{"finalizers":["order.test/hold"]}}`)
			service := s.sync(of("two", recreate), config("a", "1"))
			s.fails(service, reason.ApplyRejected, "not gone", "order.test/hold")
			s.present("ConfigMap/a")
			s.change("RoleBinding", "it", `{"metadata":{"finalizers":null}}`)
			s.healthy(service)
			if got := at(s.get("RoleBinding", "it"), "roleRef", "name"); got != "two" {
				s.t.Errorf("role: got %v, want two", got)
			}
		},
		"a recreated object is pruned like any other": func(s *scenario) {
			s.recreated(immutables()["RoleBinding role"], recreate)
			s.healthy(s.sync(config("a", "1")))
			s.vanishes("RoleBinding", "it")
		},
		"a wave waits for what is recreated": func(s *scenario) {
			labels := map[string]any{"app": "it", "value": "two"}
			s.healthy(s.sync(deploymentWith("it", nil, nil, recreate), config("after", "1", "leat.dev/wave=1")))
			service := s.sync(deploymentWith("it", map[string]any{
				"selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods(s.gate(), "")},
			}, nil, recreate), config("after", "2", "leat.dev/wave=1"))
			s.until("Deployment", "it", func(o map[string]any) bool {
				return at(o, "spec", "selector", "matchLabels", "value") == "two" && at(o, "status", "replicas") != nil
			})
			if got := at(s.get("ConfigMap", "after"), "data", "value"); got != "1" {
				s.t.Errorf("value: got %v, want still 1", got)
			}
			s.open()
			s.healthy(service)
		},
	}
	for name, change := range immutables() {
		scenarios["recreate "+name] = func(s *scenario) { s.recreated(change, recreate) }
		scenarios["not recreate "+name] = func(s *scenario) { s.kept(change) }
	}
	return scenarios
}

// first defines the kind if these tests own it.
func (s *scenario) kinds(change kindChange) {
	s.t.Helper()
	if change.kind != "Widget" {
		return
	}
	status, _ := s.request(s.t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", widgets())
	if status != http.StatusCreated && status != http.StatusConflict {
		s.t.Fatalf("define widgets: got %d", status)
	}
}

// recreated makes a change that needs another object, and expects one.
func (s *scenario) recreated(change kindChange, annotations ...string) {
	s.t.Helper()
	s.kinds(change)
	s.healthy(s.sync(change.of("one", annotations...)))
	before := s.uid(change.kind, "it")
	s.healthy(s.sync(change.of("two", annotations...)))
	if got := s.uid(change.kind, "it"); got == before {
		s.t.Errorf("got the same object, want another")
	}
}

// kept makes the same change without allowing recreation.
func (s *scenario) kept(change kindChange) {
	s.t.Helper()
	s.kinds(change)
	s.healthy(s.sync(change.of("one")))
	before := s.uid(change.kind, "it")
	got := s.fails(s.sync(change.of("two"), config("a", "1")), reason.ApplyRejected)
	message := s.refused(got, "it")
	for _, words := range []string{change.field, "leat.dev/recreate: enabled", "policy"} {
		if !strings.Contains(message, words) {
			s.t.Errorf("problem: got %q, want it to hold %q", message, words)
		}
	}
	if got := s.uid(change.kind, "it"); got != before {
		s.t.Errorf("got another object, want the same")
	}
	s.present("ConfigMap/a")
}
