// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// says returns a rule for ConfigMaps that gives all of them the same verdict.
func says(message string) []syncpolicy.HealthRule {
	return []syncpolicy.HealthRule{{Kind: "ConfigMap", Degraded: "true", Message: "'" + message + "'"}}
}

func labelled(service string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{k8s.ServiceLabel: service}},
	}}
}

func (w *world) judgement(service string) string {
	return w.engine.Judge(labelled(service)).Message
}

func (w *world) rechecked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rechecks
}

func TestRulesOfServiceAndFleet(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		own, other := w.service(t, "own", "a"), w.service(t, "other", "b")
		settings := syncpolicy.AgentSettings{}
		plan := func() {
			w.engine.SetPlan(plan.Plan{Version: "v", Services: []plan.Service{own, other}, Settings: settings})
			pass(t, time.Second)
		}
		expect := func(step, ofOwn, ofOther, ofNobody string, rechecks int) {
			t.Helper()
			got := [...]string{w.judgement("own"), w.judgement("other"), w.judgement("nobody")}
			if want := [...]string{ofOwn, ofOther, ofNobody}; got != want || w.rechecked() != rechecks {
				t.Errorf("%s: got %q after %d rechecks, want %q after %d", step, got, w.rechecked(), want, rechecks)
			}
		}
		plan()
		expect("no rules", "", "", "", 0)
		own.Spec.Policy.HealthRules, own.SpecDigest = says("own"), "2"
		plan()
		expect("a service's rules", "own", "", "", 1)
		settings.HealthRules = says("fleet")
		plan()
		expect("the fleet's rules", "own", "fleet", "fleet", 2)
		settings.HealthRules = says("fleet")
		plan()
		expect("the same rules", "own", "fleet", "fleet", 2)
		own.Spec.Policy.HealthRules, own.SpecDigest = nil, "3"
		plan()
		expect("a service without rules", "fleet", "fleet", "fleet", 3)
		settings.HealthRules = []syncpolicy.HealthRule{{Kind: "ConfigMap", Healthy: "wrong"}, says("right")[0]}
		plan()
		expect("one rule of the fleet wrong", "right", "right", "right", 4)
		assertPhase(t, w, "own", report.Degraded) // as judged when it was applied
	})
}

func TestWrongRuleIsAProblemOfItsService(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		s.Spec.Policy.HealthRules = []syncpolicy.HealthRule{
			{Group: "mill.test", Kind: "Mill", Healthy: "status.turns > 1"}, {Group: "core", Kind: "ConfigMap", Healthy: "self.kind == 'ConfigMap'"},
		}
		w.plan(s)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Degraded)
		got := w.status("s")
		if want := "health rule for mill.test/Mill: healthy: line 1, column 1: undeclared reference to 'status'"; got.Problem == nil ||
			got.Problem.Reason != reason.ManifestInvalid || !strings.HasPrefix(got.Problem.Message, want) {
			t.Errorf("got %+v, want MANIFEST_INVALID %s", got.Problem, want)
		}
		if want := (health.Counts{Total: 1, Healthy: 1}); got.Counts != want {
			t.Errorf("got %+v, want everything applied and judged: %+v", got.Counts, want)
		}
		s.Spec.Policy.HealthRules, s.SpecDigest = s.Spec.Policy.HealthRules[1:], "2"
		w.plan(s)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
	})
}

// TestFailedObjectIsReportedAtOnce shows that an object that failed permanently is reported at
// once, even if more objects are progressing than a report lists.
func TestFailedObjectIsReportedAtOnce(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.writes = 100
		var names []string
		for i := range report.MaxObjects + 10 {
			names = append(names, fmt.Sprintf("c%03d", i))
		}
		w.plan(w.service(t, "s", names...))
		pass(t, time.Second)
		see := func(name string, verdict health.Verdict) {
			object, _ := w.records["s"].Objects.Get(inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: name})
			w.engine.Observe(observe.Observation{Service: "s", Object: object, ResourceVersion: "9000", Health: verdict})
		}
		for _, name := range names {
			see(name, health.Verdict{State: health.Progressing})
		}
		see("c055", health.Verdict{State: health.Degraded, Message: "failed after 7 failed pods"})
		pass(t, time.Second)
		got := w.status("s")
		want := reason.Problem{Reason: reason.HealthTimeout, Message: "not healthy: ConfigMap default/c055: failed after 7 failed pods"}
		if got.Phase != report.Degraded || got.Problem == nil || *got.Problem != want {
			t.Errorf("got %s %+v, want Degraded %+v", got.Phase, got.Problem, want)
		}
		if len(got.Objects) != report.MaxObjects || got.Objects[0].Ref.Name != "c055" {
			t.Errorf("got %d objects, the first %s, want %d with c055 in front", len(got.Objects), got.Objects[0].Ref.Name, report.MaxObjects)
		}
		see("c055", health.Verdict{State: health.Healthy})
		see("c057", health.Verdict{State: health.Progressing, Message: "1 of 2 replicas are ready"})
		pass(t, 11*time.Minute)
		if got := w.status("s"); got.Phase != report.Degraded || got.Problem == nil ||
			!strings.HasPrefix(got.Problem.Message, "not healthy within 10m0s: ConfigMap default/c0") {
			t.Errorf("got %s %+v, want Degraded for its time", got.Phase, got.Problem)
		}
	})
}

func TestJudgeConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(reconcile.Settings{})
	certificate := labelled("s")
	certificate.Object["apiVersion"], certificate.Object["kind"] = "cert-manager.io/v1", "Certificate"
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				if got := w.engine.Judge(certificate); got.State != health.Progressing {
					t.Errorf("got %v, want Progressing", got)
				}
			}
		})
	}
	group.Wait()
}
