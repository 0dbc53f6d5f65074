// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const testFailed = reason.TestFailed

func configMapFile(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n", name)
}

func jobFile(name, annotation string) string {
	return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s, annotations: {%s}}\nspec: {}\n", name, annotation)
}

// tested returns a service of a ConfigMap "app" that has tests.
func (w *world) tested(t *testing.T, files map[string]string) plan.Service {
	t.Helper()
	all := map[string]string{"app.yaml": configMapFile("app")}
	for name, content := range files {
		all[name] = content
	}
	s := w.service(t, "s")
	s.Bundles = []plan.Bundle{{Digest: w.pack(t, all), Commit: "c1"}}
	s.Spec.Policy.Tests = &syncpolicy.Tests{Path: "tests"}
	return s
}

func jobKey(name string) inventory.Key {
	return inventory.Key{Group: "batch", Kind: "Job", Namespace: "default", Name: name}
}

func (w *world) live(k inventory.Key) *unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[k]; o != nil {
		return o.DeepCopy()
	}
	return nil
}

// finish ends a Job, as the Job controller does.
func (w *world) finish(t *testing.T, name, condition string) {
	t.Helper()
	synctest.Wait()
	job := w.live(jobKey(name))
	if job == nil {
		t.Fatalf("Job %s does not exist; objects: %v", name, w.applied)
	}
	job.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True", "message": "because"}}}
	w.set(jobKey(name), job)
	synctest.Wait()
}

func TestTests(t *testing.T) {
	t.Parallel()
	two := map[string]string{"tests/a.yaml": jobFile("a", ""), "tests/b.yaml": jobFile("b", `leat.dev/wave: "1"`)}
	for name, test := range map[string]func(*testing.T, *world){
		"they run one after the other when all is healthy": func(t *testing.T, w *world) {
			w.plan(w.tested(t, two))
			w.wants(t, "s", report.Progressing, noReason)
			if w.live(jobKey("b")) != nil {
				t.Error("the second test runs beside the first")
			}
			w.finish(t, "a", "Complete")
			w.wants(t, "s", report.Progressing, noReason)
			w.finish(t, "b", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			got := w.status("s")
			if len(got.Tests) != 2 || !got.Tests[0].Passed || got.Tests[0].Ref.Name != "a" || got.Counts.Total != 1 {
				t.Errorf("got tests %+v, counts %+v, want two that passed, and one object", got.Tests, got.Counts)
			}
			if labels := w.live(jobKey("a")).GetLabels(); labels[k8s.ServiceLabel] != "s" || labels[execute.HookLabel] != "Test" {
				t.Errorf("labels: got %v", labels)
			}
		},
		"people see which they wait for": func(t *testing.T, w *world) {
			w.plan(w.tested(t, two))
			synctest.Wait()
			began := time.Now()
			pass(t, time.Minute)
			job := w.live(jobKey("a"))
			job.Object["status"] = map[string]any{"active": int64(1)}
			w.set(jobKey("a"), job)
			synctest.Wait()
			if got := w.status("s").RunningTest; got == nil || got.Ref.Name != "a" || !got.StartedAt.Equal(began) || !got.EndedAt.IsZero() || got.Message == "" {
				t.Errorf("got %+v, want test a since %v, with its state", got, began)
			}
			w.finish(t, "a", "Complete")
			if got := w.status("s").RunningTest; got == nil || got.Ref.Name != "b" {
				t.Errorf("got %+v, want test b", got)
			}
			w.finish(t, "b", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			if got := w.status("s").RunningTest; got != nil {
				t.Errorf("got %+v, want none", got)
			}
		},
		"a pause ends the wait for one": func(t *testing.T, w *world) {
			s := w.tested(t, two)
			w.plan(s)
			synctest.Wait()
			s.Spec.Paused, s.SpecDigest = true, "paused"
			w.plan(s)
			w.wants(t, "s", report.Paused, noReason)
			if got := w.status("s").RunningTest; got != nil {
				t.Errorf("got %+v, want none", got)
			}
		},
		"what one needs stays until the last has ended": func(t *testing.T, w *world) {
			const helper = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: helper\n" +
				"  annotations: {helm.sh/hook: test, helm.sh/hook-weight: \"-1\", helm.sh/hook-delete-policy: \"before-hook-creation,hook-succeeded\"}\n"
			w.plan(w.tested(t, map[string]string{"tests/helper.yaml": helper, "tests/a.yaml": jobFile("a", "")}))
			w.wants(t, "s", report.Progressing, noReason)
			key := inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "helper"}
			if w.live(jobKey("a")) == nil || w.live(key) == nil {
				t.Fatalf("got the test %v and what it needs %v, want both", w.live(jobKey("a")), w.live(key))
			}
			w.finish(t, "a", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			if got := w.live(key); got != nil {
				t.Errorf("after the tests: got %v, want it deleted", got)
			}
		},
		"one that fails is the last": func(t *testing.T, w *world) {
			w.logs = "first\nsecond\n"
			w.plan(w.tested(t, two))
			w.finish(t, "a", "Failed")
			w.wants(t, "s", report.Degraded, testFailed, "Job.batch default/a failed: because", "second")
			got := w.status("s").Tests
			if len(got) != 1 || got[0].Passed || got[0].LogTail != w.logs || got[0].Message != "because" || got[0].EndedAt.IsZero() {
				t.Errorf("tests: got %+v", got)
			}
		},
		"once for each change": func(t *testing.T, w *world) {
			s := w.tested(t, map[string]string{"tests/a.yaml": jobFile("a", "")})
			w.plan(s)
			w.finish(t, "a", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			first := w.live(jobKey("a")).GetUID()
			pass(t, 24*time.Hour)
			w.heal("s", "ConfigMap", "app", health.Degraded)
			w.heal("s", "ConfigMap", "app", health.Healthy)
			w.wants(t, "s", report.Healthy, noReason)
			if got := w.live(jobKey("a")).GetUID(); got != first {
				t.Error("it ran again though nothing changed")
			}
			s.SyncRequest = "again"
			w.plan(s)
			w.wants(t, "s", report.Progressing, noReason)
			if got := w.live(jobKey("a")).GetUID(); got == first {
				t.Error("it did not run again though somebody asked for it")
			}
			w.finish(t, "a", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			if err := w.engine.Reconcile("s"); err != nil {
				t.Fatal(err)
			}
			w.wants(t, "s", report.Progressing, noReason)
		},
		"too long": func(t *testing.T, w *world) {
			s := w.tested(t, two)
			s.Spec.Policy.Tests.Timeout = time.Minute
			w.plan(s)
			pass(t, time.Minute-time.Second)
			w.wants(t, "s", report.Progressing, noReason)
			pass(t, time.Second)
			w.wants(t, "s", report.Degraded, testFailed, "not ended within 1m0s")
		},
		"the time is for all of them": func(t *testing.T, w *world) {
			s := w.tested(t, two)
			w.plan(s)
			pass(t, 4*time.Minute)
			w.finish(t, "a", "Complete")
			pass(t, 2*time.Minute)
			w.wants(t, "s", report.Degraded, testFailed, "default/b failed: not ended within 5m0s")
		},
		"not before all is healthy": func(t *testing.T, w *world) {
			w.plan(w.tested(t, map[string]string{"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "tests/a.yaml": jobFile("a", "")}))
			synctest.Wait()
			if w.live(jobKey("a")) != nil {
				t.Error("the test runs before the Pod is healthy")
			}
			w.heal("s", "Pod", "p", health.Healthy)
			w.finish(t, "a", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
		},
		"annotations of all tongues": func(t *testing.T, w *world) {
			s := w.tested(t, map[string]string{
				"h.yaml": jobFile("helm", "helm.sh/hook: test"), "l.yaml": jobFile("leat", `leat.dev/phase: Test, leat.dev/wave: "-1"`),
			})
			s.Spec.Policy.Tests = nil
			w.plan(s)
			synctest.Wait()
			if w.live(jobKey("helm")) != nil {
				t.Error("waves are not followed")
			}
			w.finish(t, "leat", "Complete")
			w.finish(t, "helm", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			if got := w.status("s").Counts.Total; got != 1 {
				t.Errorf("objects: got %d, want 1", got)
			}
		},
		"what a test needs": func(t *testing.T, w *world) {
			w.plan(w.tested(t, map[string]string{"tests/a.yaml": jobFile("a", ""), "tests/b.yaml": configMapFile("script")}))
			w.finish(t, "a", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			if got := w.status("s").Tests; len(got) != 1 || w.live(configMapKey("script")) == nil {
				t.Errorf("tests: got %+v, want the Job alone, and the ConfigMap made", got)
			}
		},
		"disabled": func(t *testing.T, w *world) {
			s := w.tested(t, two)
			s.Spec.Policy.Tests.Disabled = true
			w.plan(s)
			w.wants(t, "s", report.Healthy, noReason)
			if got, _ := w.count(); got != 1 {
				t.Errorf("applied: got %v, want the ConfigMap alone", w.applied)
			}
		},
		"one that left is swept up": func(t *testing.T, w *world) {
			w.plan(w.tested(t, two))
			w.finish(t, "a", "Complete")
			w.finish(t, "b", "Complete")
			w.plan(w.tested(t, map[string]string{"tests/b.yaml": jobFile("b", "")}))
			w.finish(t, "b", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
			s := w.tested(t, nil)
			s.Spec.Policy.Tests = nil
			w.plan(s)
			w.wants(t, "s", report.Healthy, noReason)
			if w.live(jobKey("a")) != nil || w.live(jobKey("b")) != nil {
				t.Error("a test that left the manifests is still there")
			}
			if got := w.records["s"].Tests; len(got.Objects) > 0 || got.Due {
				t.Errorf("record: got %+v, want nothing left", got)
			}
		},
		"they go with the service": func(t *testing.T, w *world) {
			s := w.tested(t, two)
			s.Spec.Prune = new(false)
			w.plan(s, w.service(t, "other", "other"))
			w.finish(t, "a", "Complete")
			w.plan(w.service(t, "other", "other"))
			synctest.Wait()
			if w.live(jobKey("a")) != nil || w.live(jobKey("b")) != nil || w.live(configMapKey("app")) == nil {
				t.Error("want the tests deleted, and the object kept")
			}
		},
		"a newer plan ends them": func(t *testing.T, w *world) {
			w.plan(w.tested(t, two))
			synctest.Wait()
			w.plan(w.tested(t, map[string]string{"more.yaml": configMapFile("more"), "tests/c.yaml": jobFile("c", "")}))
			synctest.Wait()
			if w.live(jobKey("a")) != nil {
				t.Error("the test of what was there before is still there")
			}
			w.finish(t, "c", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
		},
		"drift is put right meanwhile": func(t *testing.T, w *world) {
			w.plan(w.tested(t, two))
			synctest.Wait()
			before, _ := w.count()
			w.lose("s", "app")
			pass(t, time.Second)
			if after, _ := w.count(); after != before+1 || w.live(configMapKey("app")) == nil {
				t.Errorf("applied: got %d more, want the ConfigMap again", after-before)
			}
			w.finish(t, "a", "Complete")
			w.finish(t, "b", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
		},
		"somebody else's object": func(t *testing.T, w *world) {
			theirs := foreign("a", nil)
			theirs.SetAPIVersion("batch/v1")
			theirs.SetKind("Job")
			w.set(jobKey("a"), theirs)
			w.plan(w.tested(t, two))
			w.wants(t, "s", report.Degraded, testFailed, "no test of this service has made it")
			if w.live(jobKey("a")) == nil {
				t.Error("it was deleted")
			}
		},
		"one that is refused": func(t *testing.T, w *world) {
			w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
				if o.GetKind() == "Job" {
					return rejected()
				}
				return nil
			}
			w.plan(w.tested(t, two))
			w.wants(t, "s", report.Degraded, testFailed, "default/a failed: no")
		},
		"the cluster is away": func(t *testing.T, w *world) {
			var back atomic.Bool
			w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
				if o.GetKind() == "Job" && !back.Load() {
					return &reason.Problem{Reason: reason.ClusterUnreachable, Message: "away"}
				}
				return nil
			}
			w.plan(w.tested(t, two))
			pass(t, time.Minute)
			w.wants(t, "s", report.Progressing, noReason)
			back.Store(true)
			pass(t, 5*time.Minute)
			w.finish(t, "a", "Complete")
			w.finish(t, "b", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
		},
		"deleted in the middle": func(t *testing.T, w *world) {
			w.plan(w.tested(t, two))
			synctest.Wait()
			w.set(jobKey("a"), nil)
			w.wants(t, "s", report.Degraded, testFailed, "was deleted before it ended")
		},
		"a service that depends on it waits for them": func(t *testing.T, w *world) {
			w.plan(w.tested(t, two), after(w.service(t, "next", "next"), "s"))
			w.wants(t, "next", report.Pending, notReady, `service "s" is Progressing`)
			w.finish(t, "a", "Complete")
			w.finish(t, "b", "Complete")
			w.wants(t, "next", report.Healthy, noReason)
		},
		"no such folder": func(t *testing.T, w *world) {
			w.plan(w.tested(t, nil))
			w.wants(t, "s", report.Failed, reason.ManifestInvalid, "read tests")
		},
		"a pause ends them, and its end starts them again": func(t *testing.T, w *world) {
			s := w.tested(t, two)
			w.plan(s)
			synctest.Wait()
			paused := s
			paused.Spec.Paused, paused.SpecDigest = true, "paused"
			w.plan(paused)
			w.wants(t, "s", report.Paused, noReason)
			w.finish(t, "a", "Complete")
			pass(t, time.Hour)
			if w.live(jobKey("b")) != nil {
				t.Error("a test was made while paused")
			}
			w.plan(s)
			w.finish(t, "b", "Complete")
			w.wants(t, "s", report.Healthy, noReason)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, reconcile.Settings{}, test) })
	}
}

// TestTestsAfterRestart shows that a run of tests continues after a restart, and that an ended one
// does not begin again.
func TestTestsAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		s := w.tested(t, map[string]string{"tests/a.yaml": jobFile("a", ""), "tests/b.yaml": jobFile("b", "")})
		var uid string
		for i, step := range []func(){
			func() {
				w.finish(t, "a", "Complete")
				uid = string(w.live(jobKey("b")).GetUID())
			},
			func() {
				w.finish(t, "b", "Failed")
				w.wants(t, "s", report.Degraded, testFailed, "default/b failed: because")
			},
			func() { w.wants(t, "s", report.Degraded, testFailed, "default/b failed: because") },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			w.engine = w.newEngine()
			done := make(chan error, 1)
			go func() { done <- w.engine.Run(ctx) }()
			w.plan(s)
			synctest.Wait()
			w.heal("s", "ConfigMap", "app", health.Healthy)
			synctest.Wait()
			step()
			if got := string(w.live(jobKey("b")).GetUID()); got != uid {
				t.Errorf("process %d: got Job %s, want %s: it ran a second time", i, got, uid)
			}
			cancel()
			<-done
		}
		if got := strings.Count(strings.Join(w.applied, " "), "Job/"); got != 2 {
			t.Errorf("applied: got %v, want each Job once", w.applied)
		}
	})
}
