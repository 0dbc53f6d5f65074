// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func waveScenarios() map[string]func(*scenario) {
	const wave1, wave2, early = "leat.dev/wave=1", "leat.dev/wave=2", "leat.dev/wave=-5"
	return map[string]func(*scenario){
		"a wave waits for the one before": func(s *scenario) {
			service := s.sync(s.gatedDeployment("web"), config("after", "1", wave1))
			s.appears("Deployment", "web")
			s.await(s.t, s.name, func(got report.Status) bool { return got.Phase == report.Syncing && got.Counts.Progressing > 0 })
			s.absent("ConfigMap/after")
			s.open()
			s.healthy(service)
			s.present("ConfigMap/after")
		},
		"a negative wave comes first": func(s *scenario) {
			service := s.sync(s.gatedDeployment("web", early), config("after", "1"))
			s.appears("Deployment", "web")
			s.absent("ConfigMap/after")
			s.open()
			s.healthy(service)
		},
		"many waves of healthy objects": func(s *scenario) {
			service := s.sync(config("c", "1", wave2), config("b", "1", wave1), config("a", "1"), config("z", "1", early))
			s.healthy(service)
			s.present("ConfigMap/a", "ConfigMap/b", "ConfigMap/c", "ConfigMap/z")
		},
		"a job in a wave has to complete": func(s *scenario) {
			service := s.sync(job("first"), config("after", "1", wave1))
			s.healthy(service)
			if done, _ := at(s.get("Job", "first"), "status", "succeeded").(float64); done != 1 {
				s.t.Errorf("job: got %v runs that succeeded, want 1", done)
			}
		},
		"a degraded wave fails at once": func(s *scenario) {
			stuck := deploymentWith("stuck", map[string]any{"progressDeadlineSeconds": 1}, s.gate())
			service := s.sync(stuck, config("after", "1", wave1))
			s.fails(service, reason.HealthTimeout, "wave 0 of Sync is not healthy", "Deployment.apps", "stuck")
			s.absent("ConfigMap/after")
		},
		"a wave that takes too long goes on later": func(s *scenario) {
			s.spec.HealthTimeout = time.Second
			service := s.sync(s.gatedDeployment("slow"), config("after", "1", wave1))
			s.fails(service, reason.HealthTimeout, "within 1s", "slow")
			s.absent("ConfigMap/after")
			s.open()
			s.healthy(service)
			s.present("ConfigMap/after")
		},
		"a newer commit ends the wait": func(s *scenario) {
			s.sync(s.gatedDeployment("stuck"), config("after", "1", wave1))
			s.appears("Deployment", "stuck")
			service := s.sync(config("other", "1"))
			s.healthy(service)
			s.absent("ConfigMap/after")
		},
		"a newer commit repairs the wave": func(s *scenario) {
			s.sync(s.gatedDeployment("web"), config("after", "1", wave1))
			s.appears("Deployment", "web")
			service := s.sync(deploymentWith("web", nil, nil), config("after", "2", wave1))
			s.healthy(service)
			if got := at(s.get("ConfigMap", "after"), "data", "value"); got != "2" {
				s.t.Errorf("value: got %v, want 2", got)
			}
		},
		"a pause ends the wait": func(s *scenario) {
			s.sync(s.gatedDeployment("stuck"), config("after", "1", wave1))
			s.appears("Deployment", "stuck")
			s.spec.Paused = true
			s.sync(s.gatedDeployment("stuck"), config("after", "1", wave1))
			s.await(s.t, s.name, func(got report.Status) bool { return got.Phase == report.Paused })
			s.open()
			s.until("Deployment", "stuck", func(o map[string]any) bool { return at(o, "status", "readyReplicas") != nil })
			s.absent("ConfigMap/after")
		},
		"a removal ends the wait": func(s *scenario) {
			s.sync(s.gatedDeployment("stuck"), config("after", "1", wave1))
			s.appears("Deployment", "stuck")
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.vanishes("Deployment", "stuck")
		},
		"a stuck wave delays no other service": func(s *scenario) {
			s.sync(s.gatedDeployment("stuck"), config("after", "1", wave1))
			s.appears("Deployment", "stuck")
			other := s.serve(s.name+"-other", config("other", "1"))
			s.healthy(other)
		},
		"a refused object does not keep its wave": func(s *scenario) {
			service := s.sync(config("bad", "1", "Bad_Annotation!=x"), config("good", "1"), deploymentWith("web", nil, nil), config("after", "1", wave1))
			got := s.fails(service, reason.ApplyRejected)
			if message := s.refused(got, "bad"); !strings.Contains(message, "Bad_Annotation!") {
				s.t.Errorf("problem: got %q, want it to name the annotation", message)
			}
			s.present("ConfigMap/good", "Deployment/web")
			s.absent("ConfigMap/after", "ConfigMap/bad")
		},
		"all refused objects are reported": func(s *scenario) {
			service := s.sync(config("bad1", "1", "Bad_1!=x"), config("bad2", "1", "Bad_2!=x"), config("bad3", "1", wave1, "Bad_3!=x"))
			got := s.fails(service, reason.ApplyRejected, "2 objects")
			s.refused(got, "bad1")
			s.refused(got, "bad2")
		},
		"policies are not sent after a refusal": func(s *scenario) {
			policy := manifest("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "order-"+s.name, map[string]any{"spec": map[string]any{
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
					"apiGroups": []any{"order.test"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"nothings"},
				}}},
				"validations": []any{map[string]any{"expression": "true"}},
			}})
			path := "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/order-" + s.name
			service := s.sync(policy, config("bad", "1", "Bad_1!=x"))
			s.fails(service, reason.ApplyRejected)
			s.mustNotExist(s.t, path)
			s.healthy(s.sync(policy, config("good", "1")))
			s.mustExist(s.t, path)
		},
		"the next commit repairs a failed wave": func(s *scenario) {
			s.fails(s.sync(config("bad", "1", "Bad_1!=x"), config("after", "1", wave1)), reason.ApplyRejected)
			s.healthy(s.sync(config("bad", "1"), config("after", "1", wave1)))
			s.present("ConfigMap/after")
		},
		"an unchanged wave is not written": func(s *scenario) {
			s.healthy(s.sync(config("first", "1"), config("after", "1", wave1)))
			before := at(s.get("ConfigMap", "first"), "metadata", "resourceVersion")
			s.healthy(s.sync(config("first", "1"), config("after", "2", wave1)))
			if got := at(s.get("ConfigMap", "first"), "metadata", "resourceVersion"); got != before {
				s.t.Errorf("resourceVersion: got %v, want still %v", got, before)
			}
		},
		"a refresh waits for no wave": func(s *scenario) {
			s.open()
			service := s.sync(s.gatedDeployment("web"), config("after", "1", wave1))
			s.healthy(service)
			s.change("Deployment", "web", `{"spec":{"replicas":3,"progressDeadlineSeconds":700}}`)
			s.request(s.t, http.MethodDelete, s.collection("ConfigMap")+"/after", "", "")
			s.appears("ConfigMap", "after")
			s.healthy(service)
		},
		"an annotation that nobody understands": func(s *scenario) {
			service := s.sync(config("a", "1"), config("b", "1", "leat.dev/wave=first"))
			s.fails(service, reason.ManifestInvalid, "ConfigMap b", "leat.dev/wave", "first")
			s.absent("ConfigMap/a")
		},
	}
}

func widgets(annotations ...string) string {
	schema := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{
		"type": "object", "properties": map[string]any{"size": map[string]any{
			"type": "integer", "x-kubernetes-validations": []any{map[string]any{"rule": "self == oldSelf", "message": "a widget keeps its size"}},
		}},
	}}}
	return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.order.test", map[string]any{"spec": map[string]any{
		"group": "order.test", "scope": "Namespaced", "names": map[string]any{"kind": "Widget", "plural": "widgets"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": schema}}},
	}}, annotations...)
}

func widget(name string, size int, annotations ...string) string {
	return manifest("order.test/v1", "Widget", name, map[string]any{"spec": map[string]any{"size": size}}, annotations...)
}

// other is a definition like the widgets', of a kind that only one scenario uses.
func other(kind string, annotations ...string) string {
	plural := strings.ToLower(kind) + "s"
	return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", plural+".other.test", map[string]any{"spec": map[string]any{
		"group": "other.test", "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}},
	}}, annotations...)
}

func definitionScenarios() map[string]func(*scenario) {
	exists := func(s *scenario, plural, name string) {
		s.t.Helper()
		s.mustExist(s.t, "/apis/other.test/v1/namespaces/"+s.name+"/"+plural+"/"+name)
	}
	namespace := func(name string, annotations ...string) string {
		return manifest("v1", "Namespace", name, nil, annotations...)
	}
	return map[string]func(*scenario){
		"a definition comes before its objects": func(s *scenario) {
			s.healthy(s.sync(manifest("other.test/v1", "Apple", "a", nil), other("Apple")))
			exists(s, "apples", "a")
		},
		"a definition in an earlier wave": func(s *scenario) {
			s.healthy(s.sync(manifest("other.test/v1", "Pear", "a", nil, "leat.dev/wave=2"), other("Pear", "leat.dev/wave=1")))
			exists(s, "pears", "a")
		},
		"a definition in the same wave": func(s *scenario) {
			s.healthy(s.sync(manifest("other.test/v1", "Fig", "a", nil, "leat.dev/wave=1"), other("Fig", "leat.dev/wave=1"), config("b", "1", "leat.dev/wave=2")))
			exists(s, "figs", "a")
		},
		"a definition in a later wave": func(s *scenario) {
			service := s.sync(manifest("other.test/v1", "Plum", "a", nil), other("Plum", "leat.dev/wave=1"), config("b", "1", "leat.dev/wave=-1"))
			s.fails(service, reason.ManifestInvalid, "Plum.other.test a", "wave 1 of Sync", "comes later")
			s.absent("ConfigMap/b")
		},
		"a kind that comes by another service": func(s *scenario) {
			service := s.sync(manifest("other.test/v1", "Kiwi", "a", nil), config("b", "1"))
			got := s.fails(service, reason.ApplyRejected)
			if message := s.refused(got, "a"); !strings.Contains(message, "no such kind") {
				s.t.Errorf("problem: got %q, want it to say that there is no such kind", message)
			}
			s.present("ConfigMap/b")
			s.healthy(s.serve(s.name+"-kinds", other("Kiwi")))
			s.healthy(service)
			exists(s, "kiwis", "a")
		},
		"hooks of a kind that the service brings": func(s *scenario) {
			s.healthy(s.sync(manifest("other.test/v1", "Lime", "a", nil, "leat.dev/phase=PreSync"), other("Lime")))
			exists(s, "limes", "a")
		},
		"hooks in a namespace that the service brings": func(s *scenario) {
			s.spec.CreateNamespace = new(false)
			s.healthy(s.sync(job("first", "leat.dev/phase=PreSync"), namespace(s.name)))
			s.present("Job/first")
		},
		"a namespace in a wave": func(s *scenario) {
			s.spec.CreateNamespace = new(false)
			s.healthy(s.sync(config("a", "1", "leat.dev/wave=2"), namespace(s.name, "leat.dev/wave=1")))
			s.present("ConfigMap/a")
		},
		"a namespace that is being deleted": func(s *scenario) {
			s.create("ConfigMap", `{"metadata":{"name":"held","finalizers":["order.test/hold"]}}`)
			s.request(s.t, http.MethodDelete, "/api/v1/namespaces/"+s.name, "", "")
			s.until("ConfigMap", "held", func(o map[string]any) bool { return at(o, "metadata", "deletionTimestamp") != nil })
			service := s.sync(config("a", "1"))
			s.fails(service, reason.ApplyRejected, s.name, "being terminated", "retries")
			s.change("ConfigMap", "held", `{"metadata":{"finalizers":null}}`)
			s.healthy(service)
			s.present("ConfigMap/a")
		},
	}
}
