// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// staged returns a service of "kind:name" or "kind:name key=value …", where the pairs are
// annotations.
func (w *world) staged(t *testing.T, name string, objects ...string) plan.Service {
	t.Helper()
	s := w.service(t, name)
	files := map[string]string{"README.md": name}
	for i, object := range objects {
		words := strings.Fields(object)
		kind, object, _ := strings.Cut(words[0], ":")
		annotations := ""
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			annotations += fmt.Sprintf("    %s: %q\n", key, value)
		}
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata:\n  name: %s\n  annotations:\n    x: text\n%s", kind, object, annotations)
	}
	s.Bundles[0].Digest = w.pack(t, files)
	return s
}

// relay is a bubble with consecutive engines: again ends one, and starts another with a plan of the
// given services.
func relay(t *testing.T, test func(t *testing.T, w *world, again func(...plan.Service))) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		stop := w.runUntil(t)
		test(t, w, func(services ...plan.Service) {
			stop()
			w.engine = w.newEngine()
			stop = w.runUntil(t)
			w.plan(services...)
		})
	})
}

// judged has a watch observe an object in another state of health.
func (w *world) judged(t *testing.T, kind, name string, state health.State) {
	t.Helper()
	w.mu.Lock()
	live, ok := w.objects[inventory.Key{Kind: kind, Namespace: "default", Name: name}]
	if !ok {
		w.mu.Unlock()
		t.Fatalf("there is no %s %s", kind, name)
	}
	w.writes++
	live.SetResourceVersion(fmt.Sprint(w.writes))
	seen := sight(live)
	w.mu.Unlock()
	seen.Health = health.Verdict{State: state}
	w.engine.Observe(seen)
}

// end lets a Pod end.
func (w *world) end(name, phase string) {
	k := inventory.Key{Kind: "Pod", Namespace: "default", Name: name}
	w.mu.Lock()
	live := w.objects[k].DeepCopy()
	w.mu.Unlock()
	live.Object["status"] = map[string]any{"phase": phase}
	w.set(k, live)
}

func (w *world) has(object string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.applied, object)
}

// A Pod without a status has not run yet, and is only progressing.
const (
	waiting = "Pod:first leat.dev/wave=-1"
	running = "Pod:hook leat.dev/phase=PreSync"
)

// TestWaitingHoldsNoSlot has a service in the only slot that waits for longer than a run may take.
func TestWaitingHoldsNoSlot(t *testing.T) {
	for name, blocker := range map[string]string{"wave": waiting, "hook": running} {
		t.Run(name, func(t *testing.T) {
			settings := reconcile.Settings{Workers: 1, ApplyTimeout: 5 * time.Minute}
			bubble(t, settings, func(t *testing.T, w *world) {
				stuck, other := w.staged(t, "stuck", blocker, "ConfigMap:after"), w.service(t, "other", "b")
				w.plan(stuck, other)
				pass(t, time.Second)
				assertPhase(t, w, "other", report.Healthy)
				assertPhase(t, w, "stuck", report.Syncing)
				pass(t, 8*time.Minute)
				assertPhase(t, w, "stuck", report.Syncing)
				pass(t, 2*time.Minute)
				assertPhase(t, w, "stuck", report.Failed)
				if got := w.status("stuck").Problem; got.Reason != reason.HealthTimeout || !strings.Contains(got.Message, "within 10m0s") {
					t.Errorf("problem: got %+v, want HEALTH_TIMEOUT after 10m", got)
				}
				if w.has("ConfigMap/after") {
					t.Error("what comes after was applied")
				}
			})
		})
	}
}

// TestNewerPlanEndsTheWait shows that a newer plan ends a wait at once, and that nothing of the
// wait is left behind.
func TestNewerPlanEndsTheWait(t *testing.T) {
	for name, blocker := range map[string]string{"wave": waiting, "hook": running} {
		t.Run(name, func(t *testing.T) {
			bubble(t, reconcile.Settings{Workers: 1}, func(t *testing.T, w *world) {
				w.plan(w.staged(t, "s", blocker, "ConfigMap:after"))
				pass(t, time.Minute)
				w.plan(w.staged(t, "s", "ConfigMap:other"))
				pass(t, time.Millisecond)
				assertPhase(t, w, "s", report.Healthy)
				if w.has("ConfigMap/after") || !w.has("ConfigMap/other") {
					t.Errorf("applied: got %v, want nothing of the old plan's second wave", w.applied)
				}
				if n := w.followers(inventory.Key{Kind: "Pod", Namespace: "default", Name: "hook"}); n != 0 {
					t.Errorf("got %d that still follow the hook, want none", n)
				}
			})
		})
	}
}

// TestApplyTimeoutIsPerStage has two stages that together exceed the timeout of one.
func TestApplyTimeoutIsPerStage(t *testing.T) {
	bubble(t, reconcile.Settings{ApplyTimeout: 5 * time.Minute}, func(t *testing.T, w *world) {
		w.onApply = func(ctx context.Context, o *unstructured.Unstructured) error {
			pause := 3 * time.Minute
			if o.GetName() == "never" {
				pause = time.Hour
			}
			select {
			case <-time.After(pause):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		w.plan(w.staged(t, "two", "ConfigMap:a", "ConfigMap:b leat.dev/wave=1"), w.staged(t, "slow", "ConfigMap:never"))
		pass(t, 4*time.Minute)
		assertPhase(t, w, "two", report.Syncing)
		pass(t, 3*time.Minute)
		assertPhase(t, w, "two", report.Healthy)
		assertPhase(t, w, "slow", report.Failed)
		if got := w.status("slow").Problem; got.Reason != reason.DeadlineExceeded {
			t.Errorf("problem: got %+v, want DEADLINE_EXCEEDED", got)
		}
	})
}

// TestOneStageWaitsForNothing shows that a service without waves and hooks is applied at once,
// regardless of its health.
func TestOneStageWaitsForNothing(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.plan(w.staged(t, "s", "Pod:first", "ConfigMap:a", "Namespace:ns"))
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Progressing)
		if got := w.status("s").Applied.At; got.IsZero() {
			t.Error("not applied, want it applied completely")
		}
	})
}

// TestWaveGoesOnWhenItIsWell shows that the next wave starts at once, also after the run has given
// up.
func TestWaveGoesOnWhenItIsWell(t *testing.T) {
	for name, patience := range map[string]time.Duration{"in time": time.Minute, "after it gave up": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				w.plan(w.staged(t, "s", waiting, "ConfigMap:after"))
				pass(t, patience)
				w.judged(t, "Pod", "first", health.Healthy)
				pass(t, time.Millisecond)
				assertPhase(t, w, "s", report.Healthy)
				if got := w.status("s").Timings.Apply; got != 0 {
					t.Errorf("apply: got %v, want nothing: to wait is not to apply", got)
				}
			})
		})
	}
}

// TestDegradedWaveFailsAtOnce also shows that a run without a change does not wait, and does not
// fail because of the wave.
func TestDegradedWaveFailsAtOnce(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		s := w.staged(t, "s", waiting, "ConfigMap:after")
		w.plan(s)
		pass(t, time.Minute)
		w.judged(t, "Pod", "first", health.Degraded)
		pass(t, time.Millisecond)
		assertPhase(t, w, "s", report.Failed)
		if got := w.status("s").Problem; got.Reason != reason.HealthTimeout || !strings.Contains(got.Message, "wave -1 of Sync is not healthy: Pod default/first") {
			t.Errorf("problem: got %+v, want HEALTH_TIMEOUT that names wave and object", got)
		}
		w.judged(t, "Pod", "first", health.Healthy)
		pass(t, time.Millisecond)
		assertPhase(t, w, "s", report.Healthy)

		w.judged(t, "Pod", "first", health.Degraded)
		pass(t, 2*time.Hour) // refreshes
		assertPhase(t, w, "s", report.Degraded)
	})
}

// TestHookRunsOnce checks everything that does not change the inputs.
func TestHookRunsOnce(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		s := w.staged(t, "s", running, "ConfigMap:a")
		w.plan(s)
		pass(t, time.Minute)
		if w.has("ConfigMap/a") {
			t.Fatal("applied before the hook ended")
		}
		w.end("hook", "Succeeded")
		pass(t, time.Millisecond)
		assertPhase(t, w, "s", report.Healthy)
		count := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, o := range w.applied {
				if o == "Pod/hook" {
					n++
				}
			}
			return n
		}
		pass(t, 3*time.Hour)
		w.engine.Observe(w.edit(t, "a", setData("theirs")))
		pass(t, time.Minute)
		if err := w.engine.Reconcile("s"); err != nil {
			t.Fatal(err)
		}
		pass(t, time.Minute)
		if got := count(); got != 1 {
			t.Errorf("hook: got %d runs, want 1", got)
		}
		s.SyncRequest = "please"
		w.plan(s)
		pass(t, time.Minute)
		w.end("hook", "Succeeded")
		pass(t, time.Minute)
		if got := count(); got != 2 {
			t.Errorf("hook: got %d runs after a request, want 2", got)
		}
		assertPhase(t, w, "s", report.Healthy)
	})
}

// TestHookOutlastsRestarts ends the engine at each point of a hook's life. The hook runs once in
// all cases.
func TestHookOutlastsRestarts(t *testing.T) {
	relay(t, func(t *testing.T, w *world, again func(...plan.Service)) {
		s := w.staged(t, "s", running+" leat.dev/hook-delete-policy=HookSucceeded", waiting, "ConfigMap:a")
		w.plan(s)
		pass(t, time.Minute)
		again(s) // while it runs
		pass(t, time.Minute)
		w.end("hook", "Succeeded")
		pass(t, time.Minute)
		if applied, deleted := w.count(); applied != 2 || deleted != 1 {
			t.Fatalf("got %d applied, %d deleted, want the hook and the first wave applied, and the hook deleted", applied, deleted)
		}
		again(s) // while the first wave is waited for, and the hook is deleted
		pass(t, time.Minute)
		w.judged(t, "Pod", "first", health.Healthy)
		pass(t, time.Minute)
		assertPhase(t, w, "s", report.Healthy)
		again(s) // afterwards
		pass(t, time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(slices.DeleteFunc(slices.Clone(w.applied), func(o string) bool { return o != "Pod/hook" })); n != 1 {
			t.Errorf("hook: got %d runs, want 1: %v", n, w.applied)
		}
	})
}

// TestFarewellOutlastsRestarts removes a service whose manifests are not available any more.
func TestFarewellOutlastsRestarts(t *testing.T) {
	relay(t, func(t *testing.T, w *world, again func(...plan.Service)) {
		s := w.staged(t, "s", "ConfigMap:a", "Pod:bye leat.dev/phase=PreDelete", "Pod:gone leat.dev/phase=PostDelete")
		w.plan(s)
		pass(t, time.Minute)
		assertPhase(t, w, "s", report.Healthy)
		w.mu.Lock()
		clear(w.bundles)
		w.mu.Unlock()
		again() // a plan without it
		pass(t, time.Minute)
		if !w.has("Pod/bye") || w.has("Pod/gone") || len(w.deleted) > 0 {
			t.Fatalf("got %v applied, %v deleted, want the PreDelete hook, and nothing", w.applied, w.deleted)
		}
		again() // while it runs
		pass(t, time.Minute)
		w.end("bye", "Succeeded")
		pass(t, time.Minute)
		if !w.has("Pod/gone") || !slices.Contains(w.deleted, "a") {
			t.Fatalf("got %v applied, %v deleted, want the PostDelete hook, and a", w.applied, w.deleted)
		}
		w.end("gone", "Succeeded")
		pass(t, time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.objects) > 0 || len(w.records) > 0 {
			t.Errorf("got %d objects and %d records left, want none", len(w.objects), len(w.records))
		}
		if want := []string{"ConfigMap/a", "Pod/bye", "Pod/gone"}; !slices.Equal(w.applied, want) {
			t.Errorf("applied: got %v, want %v", w.applied, want)
		}
	})
}

// TestFailedFarewellIsRepeated shows that a hook that prevents a service's removal is retried
// automatically: only its manifest is left, and a sync could not be requested.
func TestFailedFarewellIsRepeated(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.plan(w.staged(t, "s", "ConfigMap:a", "Pod:bye leat.dev/phase=PreDelete"))
		pass(t, time.Minute)
		w.plan()
		pass(t, time.Minute)
		w.end("bye", "Failed")
		pass(t, time.Millisecond)
		assertPhase(t, w, "s", report.Failed)
		if got := w.status("s").Problem; got.Reason != reason.HookFailed {
			t.Errorf("problem: got %+v, want HOOK_FAILED", got)
		}
		pass(t, 10*time.Minute)
		w.end("bye", "Succeeded")
		pass(t, time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.objects) > 0 {
			t.Errorf("got %d objects left, want none", len(w.objects))
		}
	})
}
