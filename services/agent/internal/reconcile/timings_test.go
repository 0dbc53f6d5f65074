// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func TestTimings(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		w.openDelay = 2 * time.Second
		w.onApply = func(context.Context, *unstructured.Unstructured) error {
			<-time.After(3 * time.Second)
			return nil
		}
		s, planned := w.service(t, "s", "a"), time.Now().Add(-time.Minute)
		s.Trigger = plan.Trigger{Traceparent: "the change's", FetchBegan: planned.Add(-time.Second), Fetch: time.Second}
		trigger, arrived := s.Trigger, time.Now()
		w.engine.SetPlan(plan.Plan{Version: "1", Time: planned, Services: []plan.Service{s}})
		pass(t, time.Second)
		if got := w.status("s"); got.Timings != (report.Timings{Arrived: arrived}) || !got.Planned.Equal(planned) || got.Observed.Digests[0] != s.Bundles[0].Digest.String() {
			t.Errorf("got %+v, want what is tried, and when it came", got)
		}
		pass(t, time.Minute)
		want := report.Timings{Arrived: arrived, Download: 2 * time.Second, Apply: 3 * time.Second, Healthy: 5 * time.Second}
		if got := w.status("s"); got.Timings != want {
			t.Errorf("got %+v, want %+v", got.Timings, want)
		}
		// No refresh, plan without a change, or object that becomes unhealthy and recovers changes
		// them.
		pass(t, 2*time.Hour)
		refreshed := s
		refreshed.Traceparent = "another one's"
		w.engine.SetPlan(plan.Plan{Version: "2", Time: time.Now(), Services: []plan.Service{refreshed}})
		pass(t, time.Minute)
		ref := inventory.RefOf(w.objects[inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "a"}])
		for i, state := range []health.State{health.Degraded, health.Healthy} {
			w.engine.Observe(observe.Observation{
				Service: "s", Object: inventory.Object{Ref: ref}, ResourceVersion: "100" + string(rune('0'+i)), Health: health.Verdict{State: state},
			})
			pass(t, time.Minute)
		}
		assertPhase(t, w, "s", report.Healthy)
		if got := w.status("s"); got.Timings != want || !got.Planned.Equal(planned) || got.Trigger != trigger {
			t.Errorf("got %+v, planned %v, %+v, want what it was: %+v, %v, %+v", got.Timings, got.Planned, got.Trigger, want, planned, trigger)
		}
	})
}

// TestStagesOfARun has a run wait for a wave, a run without a change, and a run that cannot apply.
func TestStagesOfARun(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		w.openDelay = 2 * time.Second
		var refusal error
		w.onApply = func(context.Context, *unstructured.Unstructured) error {
			<-time.After(3 * time.Second)
			return refusal
		}
		w.plan(w.staged(t, "s", waiting, "ConfigMap:after"))
		pass(t, time.Minute)
		w.judged(t, "Pod", "first", health.Healthy)
		pass(t, time.Minute)
		refusal = errors.New("no")
		w.plan(w.staged(t, "s", "ConfigMap:other"))
		pass(t, 10*time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		want := []observedRun{
			{took: 63 * time.Second, spent: execute.Spent{Applied: 2, Stages: map[execute.Stage]time.Duration{
				execute.StageRender: 2 * time.Second, execute.StageApply: 6 * time.Second, execute.StageWait: 55 * time.Second, execute.StagePrune: 0,
			}}},
			{took: 5 * time.Second, isFailed: true, spent: execute.Spent{Failed: execute.StageApply, Stages: map[execute.Stage]time.Duration{
				execute.StageRender: 2 * time.Second, execute.StageApply: 3 * time.Second,
			}}},
		}
		if diff := cmp.Diff(want, w.observed[:min(2, len(w.observed))], cmp.AllowUnexported(observedRun{})); diff != "" {
			t.Errorf("the observer received other runs (-want +got):\n%s", diff)
		}
	})
}

// TestObserverCountsWhatRunsSpared has a run of two objects, a refresh, and a change of one of the two.
func TestObserverCountsWhatRunsSpared(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		counts := func() (applied, kept int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, run := range w.observed {
				applied, kept = applied+run.spent.Applied, kept+run.spent.Kept
			}
			w.observed = nil
			return applied, kept
		}
		want := func(when string, applied, kept int) {
			t.Helper()
			if gotApplied, gotKept := counts(); gotApplied != applied || gotKept != kept {
				t.Errorf("%s: got %d applied and %d kept objects, want %d and %d", when, gotApplied, gotKept, applied, kept)
			}
		}
		w.plan(w.service(t, "s", "a", "b"))
		pass(t, time.Minute)
		want("the first run", 2, 0)
		pass(t, 80*time.Minute)
		want("a refresh", 0, 2)
		w.plan(w.service(t, "s", "a", "b", "c"))
		pass(t, time.Minute)
		want("a change", 1, 2)
	})
}

// TestEachRunLogsItsOwnDuration runs a service again because another client changed an object. The
// status keeps the duration of the change, and the line of each run has the duration of the run.
func TestEachRunLogsItsOwnDuration(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		w.openDelay = 4 * time.Second
		w.plan(plan.Service{
			Name: "s", UID: "uid-s", SpecDigest: "spec", Spec: plan.Spec{Policy: syncpolicy.Policy{Drift: syncpolicy.DriftCorrect}},
			Bundles: []plan.Bundle{{Digest: w.pack(t, map[string]string{"a.yaml": manifest("a", "1")}), Commit: "c1"}},
		})
		pass(t, time.Minute)
		w.openDelay = time.Second
		w.engine.Observe(w.edit(t, "a", setData("2")))
		pass(t, time.Minute)
		var took []string
		for _, line := range w.log.all() {
			if _, duration, ok := strings.Cut(line, " took="); ok && strings.Contains(line, `msg="service applied"`) {
				took = append(took, duration)
			}
		}
		if want := []string{"4s", "1s"}; !slices.Equal(took, want) {
			t.Errorf("got %v, want %v", took, want)
		}
		if got := w.status("s").Applied.Took; got != 4*time.Second {
			t.Errorf("got %v, want the duration of the change", got)
		}
	})
}

// TestBackWithoutARun returns to the applied plan while the one in between cannot be rendered.
func TestBackWithoutARun(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		first, second := w.service(t, "s", "a"), w.service(t, "s", "b")
		second.SpecDigest = "another spec"
		w.plan(first)
		pass(t, time.Second)
		w.mu.Lock()
		delete(w.bundles, second.Bundles[0].Digest)
		w.mu.Unlock()
		w.plan(second)
		pass(t, time.Second)
		if got := w.status("s"); got.Phase != report.Failed || got.Observed.SpecDigest != second.SpecDigest {
			t.Errorf("got %s of %+v, want the second failed", got.Phase, got.Observed)
		}
		applied, _ := w.count()
		w.plan(first)
		pass(t, time.Second)
		if got := w.status("s"); got.Phase != report.Healthy || got.Observed.SpecDigest != first.SpecDigest || got.Timings != (report.Timings{}) {
			t.Errorf("got %s of %+v in %+v, want the first, healthy without a run", got.Phase, got.Observed, got.Timings)
		}
		if again, _ := w.count(); again != applied {
			t.Errorf("got %d applies, want none", again-applied)
		}
	})
}
