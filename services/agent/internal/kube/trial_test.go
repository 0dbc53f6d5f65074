// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const testPhase = "leat.dev/phase=Test"

// TestTests runs one engine on a control plane with controllers and a node whose pods run, or
// complete if they belong to a Job.
func TestTests(t *testing.T) {
	t.Parallel()
	c := startCluster(t, func(p *localkube.Params) { p.Nodes = 1 })
	concurrently(t, c, testScenarios())
}

// check sets a service's manifests, and those in its tests' folder.
func (s *scenario) check(app string, tests ...string) plan.Service {
	s.t.Helper()
	s.spec.Policy.Tests = &syncpolicy.Tests{Path: "tests", Timeout: s.limit}
	files := map[string]string{"app.yaml": app}
	for i, test := range tests {
		files[fmt.Sprintf("tests/%02d.yaml", i)] = test
	}
	return s.put(s.t, s.name, files, s.spec)
}

// failed waits until a test of the service failed, with words in the problem's message.
func (s *scenario) failed(service plan.Service, words ...string) report.Status {
	s.t.Helper()
	got := s.settled(s.t, service, report.Degraded)
	if got.Problem.Reason != reason.TestFailed {
		s.t.Fatalf("problem: got %+v, want TEST_FAILED", got.Problem)
	}
	for _, word := range words {
		if !strings.Contains(got.Problem.Message, word) {
			s.t.Errorf("problem: got %q, want it to hold %q", got.Problem.Message, word)
		}
	}
	return got
}

// results returns the tests of a status: "+name" for passed ones, "-name" for others.
func results(got report.Status) string {
	var all []string
	for _, r := range got.Tests {
		all = append(all, map[bool]string{true: "+", false: "-"}[r.Passed]+r.Ref.Name)
	}
	return strings.Join(all, " ")
}

func (s *scenario) tested(got report.Status, want string) {
	s.t.Helper()
	if results(got) != want {
		s.t.Errorf("tests: got %q, want %q", results(got), want)
	}
}

func testScenarios() map[string]func(*scenario) {
	app := config("app", "1")
	return map[string]func(*scenario){
		"tests pass": func(s *scenario) {
			got := s.healthy(s.check(app, job("one"), job("two")))
			s.tested(got, "+one +two")
			if got.Counts.Total != 1 {
				s.t.Errorf("objects: got %d, want 1: tests do not count", got.Counts.Total)
			}
			for _, r := range got.Tests {
				if r.StartedAt.IsZero() || r.EndedAt.Before(r.StartedAt) {
					s.t.Errorf("times of %s: got %v to %v", r.Ref.Name, r.StartedAt, r.EndedAt)
				}
			}
			labels, _ := at(s.get("Job", "one"), "metadata", "labels").(map[string]any)
			if labels[k8s.ServiceLabel] != s.name || labels[execute.HookLabel] != "Test" {
				s.t.Errorf("labels: got %v", labels)
			}
		},
		"tests wait for health": func(s *scenario) {
			service := s.check(s.gatedDeployment("web"), job("one"))
			s.settled(s.t, service, report.Progressing)
			s.absent("Job/one")
			s.open()
			s.tested(s.healthy(service), "+one")
		},
		"tests one after the other by wave": func(s *scenario) {
			service := s.check(app, job("later", "leat.dev/wave=2"), s.gatedJob("sooner", "leat.dev/wave=1"))
			s.appears("Job", "sooner")
			s.settled(s.t, service, report.Progressing)
			s.absent("Job/later")
			s.open()
			s.tested(s.healthy(service), "+sooner +later")
		},
		"tests one fails": func(s *scenario) {
			got := s.failed(s.check(app, failingJob("a"), job("b")), "Job.batch "+s.name+"/a failed", "active longer than specified deadline")
			s.tested(got, "-a")
			s.absent("Job/b")
			s.present("ConfigMap/app", "Job/a")
		},
		"tests take too long": func(s *scenario) {
			s.limit = 2 * time.Second
			s.tested(s.failed(s.check(app, s.gatedJob("stuck"), job("later", "leat.dev/wave=1")), "not ended within 2s"), "-stuck")
			s.absent("Job/later")
		},
		"a change runs the tests again": func(s *scenario) {
			s.healthy(s.check(app, job("one")))
			before := s.uid("Job", "one")
			s.healthy(s.check(config("app", "2"), job("one")))
			if s.uid("Job", "one") == before {
				s.t.Error("the Job of the change before was taken for the new one")
			}
		},
		"a sync request runs the tests again": func(s *scenario) {
			service := s.check(app, job("one"))
			s.healthy(service)
			before := s.uid("Job", "one")
			s.again(service, "please")
			s.await(s.t, s.name, func(got report.Status) bool {
				return got.Phase == report.Healthy && got.ObservedSyncRequest == "please" && len(got.Tests) == 1
			})
			if s.uid("Job", "one") == before {
				s.t.Error("it did not run again")
			}
		},
		"drift does not run the tests again": func(s *scenario) {
			s.healthy(s.check(app, job("one")))
			before := s.uid("Job", "one")
			s.change("ConfigMap", "app", `{"data":{"value":"by hand"}}`)
			s.value("app", "1")
			s.request(s.t, http.MethodDelete, s.collection("ConfigMap")+"/app", "", "")
			s.value("app", "1")
			s.await(s.t, s.name, func(got report.Status) bool { return got.Phase == report.Healthy })
			if s.uid("Job", "one") != before {
				s.t.Error("it ran again")
			}
		},
		"tests drift is put right meanwhile": func(s *scenario) {
			service := s.check(app, s.gatedJob("one"))
			s.appears("Job", "one")
			s.change("ConfigMap", "app", `{"data":{"value":"by hand"}}`)
			s.value("app", "1")
			s.open()
			s.healthy(service)
		},
		"tests a newer change ends them": func(s *scenario) {
			s.check(app, s.gatedJob("one"))
			s.appears("Job", "one")
			service := s.check(config("app", "2"), job("two"))
			s.tested(s.healthy(service), "+two")
			s.vanishes("Job", "one")
		},
		"tests a fix": func(s *scenario) {
			s.failed(s.check(app, failingJob("one")))
			s.tested(s.healthy(s.check(app, job("one"))), "+one")
		},
		"tests of Helm": func(s *scenario) {
			got := s.healthy(s.sync(app, job("two", "helm.sh/hook=test", "helm.sh/hook-weight=2"), job("one", "helm.sh/hook=test-success", "helm.sh/hook-weight=1")))
			s.tested(got, "+one +two")
		},
		"tests that go when they passed": func(s *scenario) {
			got := s.healthy(s.sync(app, job("one", "helm.sh/hook=test", "helm.sh/hook-delete-policy=hook-succeeded")))
			s.tested(got, "+one")
			s.vanishes("Job", "one")
		},
		"tests of Leat among the manifests": func(s *scenario) {
			got := s.healthy(s.sync(app, job("one", testPhase)))
			s.tested(got, "+one")
			if got.Counts.Total != 1 {
				s.t.Errorf("objects: got %d, want 1", got.Counts.Total)
			}
		},
		"tests an object that becomes one": func(s *scenario) {
			s.healthy(s.sync(app, job("one")))
			before := s.uid("Job", "one")
			s.tested(s.healthy(s.sync(app, job("one", testPhase))), "+one")
			if s.uid("Job", "one") == before {
				s.t.Error("the object was taken for the test")
			}
		},
		"tests a Pod": func(s *scenario) {
			service := s.check(app, manifest("v1", "Pod", "probe", map[string]any{"spec": pods(s.gate(), "Never")}))
			s.appears("Pod", "probe")
			s.change("Pod", "probe/status", `{"status":{"phase":"Succeeded"}}`)
			s.tested(s.healthy(service), "+probe")
		},
		"tests a Pod that fails": func(s *scenario) {
			service := s.check(app, manifest("v1", "Pod", "probe", map[string]any{"spec": pods(s.gate(), "Never")}))
			s.appears("Pod", "probe")
			s.change("Pod", "probe/status", `{"status":{"phase":"Failed","message":"no answer from web"}}`)
			s.failed(service, "Pod "+s.name+"/probe failed", "no answer from web")
		},
		"tests with names of their own": func(s *scenario) {
			named := strings.Replace(job("x", testPhase), `"name":"x"`, `"generateName":"probe-"`, 1)
			got := s.healthy(s.check(app, named))
			if len(got.Tests) != 1 || !strings.HasPrefix(got.Tests[0].Ref.Name, "probe-") {
				s.t.Fatalf("tests: got %+v", got.Tests)
			}
			first := got.Tests[0].Ref.Name
			s.healthy(s.check(config("app", "2"), named))
			s.vanishes("Job", first)
		},
		"tests and what they need": func(s *scenario) {
			s.tested(s.healthy(s.check(app, config("script", "x"), job("one"))), "+one")
			s.present("ConfigMap/script")
			s.healthy(s.check(app, job("one")))
			s.vanishes("ConfigMap", "script")
		},
		"tests go with the service": func(s *scenario) {
			s.healthy(s.check(app, job("one"), config("script", "x")))
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.vanishes("Job", "one")
			s.vanishes("ConfigMap", "script")
		},
		"tests that are refused": func(s *scenario) {
			s.failed(s.check(app, jobWith("one", map[string]any{"nonsense": true})), "nonsense")
		},
		"tests in the place of somebody's Job": func(s *scenario) {
			s.create("Job", s.gatedJob("one"))
			before := s.uid("Job", "one")
			s.failed(s.check(app, job("one")), "no test of this service has made it")
			if s.uid("Job", "one") != before {
				s.t.Error("it was replaced")
			}
		},
		"tests in a service's own kustomization": func(s *scenario) {
			s.spec.Policy.Tests = &syncpolicy.Tests{Path: "tests"}
			got := s.healthy(s.put(s.t, s.name, map[string]string{
				"kustomization.yaml": "resources: [app.yaml, tests/one.yaml]\n", "app.yaml": app, "tests/one.yaml": job("one"),
			}, s.spec))
			s.tested(got, "+one")
			if got.Counts.Total != 1 {
				s.t.Errorf("objects: got %d, want 1", got.Counts.Total)
			}
		},
		"tests with a kustomization of their own": func(s *scenario) {
			s.spec.Policy.Tests = &syncpolicy.Tests{Path: "tests"}
			got := s.healthy(s.put(s.t, s.name, map[string]string{
				"app.yaml": app, "tests/kustomization.yaml": "namePrefix: my-\nresources: [one.yaml]\n", "tests/one.yaml": job("one"),
			}, s.spec))
			s.tested(got, "+my-one")
		},
		"tests are switched off": func(s *scenario) {
			s.spec.Policy.Tests = &syncpolicy.Tests{Disabled: true}
			s.tested(s.healthy(s.sync(app, failingJob("one", testPhase))), "")
			s.absent("Job/one")
		},
	}
}

// testTestsOutlastTheAgent shows that tests that run during a restart of the agent continue, and do
// not run a second time. Their results are still known after the next restart.
func testTestsOutlastTheAgent(t *testing.T, c *cluster) {
	t.Helper()
	s := newScenario(t, c, "outlast")
	service := s.check(config("app", "1"), job("a"), s.gatedJob("b", "leat.dev/wave=1"), failingJob("c", "leat.dev/wave=2"))
	s.appears("Job", "b")
	uids := s.uid("Job", "a") + s.uid("Job", "b")
	c.restart(t)
	s.settled(t, service, report.Progressing)
	s.open()
	s.tested(s.failed(service), "+a +b -c")
	if got := s.uid("Job", "a") + s.uid("Job", "b"); got != uids {
		t.Errorf("uids: got %s, want %s: tests ran a second time", got, uids)
	}
	uids += s.uid("Job", "c")
	c.restart(t)
	s.tested(s.failed(service), "+a +b -c")
	if got := s.uid("Job", "a") + s.uid("Job", "b") + s.uid("Job", "c"); got != uids {
		t.Errorf("uids: got %s, want %s: tests ran a second time", got, uids)
	}
}
