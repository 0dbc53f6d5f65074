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
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// after makes a service depend on others.
func after(s plan.Service, services ...string) plan.Service {
	for _, name := range services {
		s.Spec.Policy.DependsOn = append(slices.Clone(s.Spec.Policy.DependsOn), syncpolicy.Dependency{Service: name})
	}
	return s
}

// afterObject makes a service depend on a ConfigMap of the default namespace.
func afterObject(s plan.Service, name, condition string) plan.Service {
	s.Spec.Policy.DependsOn = append(slices.Clone(s.Spec.Policy.DependsOn), syncpolicy.Dependency{
		Object: &syncpolicy.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: name}, Condition: condition,
	})
	return s
}

func configMapKey(name string) inventory.Key {
	return inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: name}
}

func foreign(name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default", "uid": "u-" + name}, "data": data,
	}}
}

// heal has a watch observe an object of a service in a state.
func (w *world) heal(service, kind, name string, state health.State) {
	w.mu.Lock()
	w.writes++
	live := w.objects[inventory.Key{Kind: kind, Namespace: "default", Name: name}]
	version := w.writes
	w.mu.Unlock()
	w.engine.Observe(observe.Observation{
		Service: service, Object: inventory.Object{Ref: inventory.RefOf(live), UID: string(live.GetUID())},
		ResourceVersion: fmt.Sprint(version), Health: health.Verdict{State: state},
	})
}

// lose deletes a ConfigMap of a service, as another client would, and has a watch observe that.
func (w *world) lose(service, name string) {
	live := w.live(configMapKey(name))
	w.set(configMapKey(name), nil)
	w.mu.Lock()
	w.writes++
	version := w.writes
	w.mu.Unlock()
	w.engine.Observe(observe.Observation{
		Service: service, Object: inventory.Object{Ref: inventory.RefOf(live), UID: string(live.GetUID())},
		ResourceVersion: fmt.Sprint(version), Deleted: true,
	})
}

func (w *world) wants(t *testing.T, service string, phase report.Phase, why reason.Reason, words ...string) {
	t.Helper()
	synctest.Wait()
	got := w.status(service)
	problem := reason.Problem{}
	if got.Problem != nil {
		problem = *got.Problem
	}
	if got.Phase != phase || problem.Reason != why {
		t.Fatalf("service %s: got %s, %+v, want %s, %q", service, got.Phase, problem, phase, why)
	}
	for _, word := range words {
		if !strings.Contains(problem.Message, word) {
			t.Errorf("service %s: got message %q, want one that holds %q", service, problem.Message, word)
		}
	}
}

const notReady, noReason = reason.DependencyNotReady, reason.Reason(0)

func TestDependsOnService(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *world){
		"it waits and goes on by itself": func(t *testing.T, w *world) {
			w.plan(after(w.service(t, "app", "app"), "db"), w.service(t, "db", "Pod:db"))
			w.wants(t, "app", report.Pending, notReady, `service "db" is Progressing`)
			if got := w.status("app").Observed.SpecDigest; got != "spec-app" {
				t.Errorf("observed: got %q, want the entry that waits: the hub has to see what the message is about", got)
			}
			w.heal("db", "Pod", "db", health.Healthy)
			w.wants(t, "app", report.Healthy, noReason)
			if got, want := w.applied, []string{"Pod/db", "ConfigMap/app"}; !slices.Equal(got, want) {
				t.Errorf("applied: got %v, want %v", got, want)
			}
		},
		"a chain comes up in order": func(t *testing.T, w *world) {
			w.plan(after(w.service(t, "a", "a"), "b"), after(w.service(t, "b", "b"), "c"), w.service(t, "c", "c"))
			w.wants(t, "a", report.Healthy, noReason)
			if got, want := w.applied, []string{"ConfigMap/c", "ConfigMap/b", "ConfigMap/a"}; !slices.Equal(got, want) {
				t.Errorf("applied: got %v, want %v", got, want)
			}
		},
		"both change at once, whichever is told first": func(t *testing.T, w *world) {
			w.plan(after(w.service(t, "a", "a1"), "b"), w.service(t, "b", "b1"))
			w.wants(t, "a", report.Healthy, noReason)
			w.plan(after(w.service(t, "a", "a2"), "b"), w.service(t, "b", "b2"))
			w.wants(t, "a", report.Healthy, noReason)
			if got, want := w.applied[2:], []string{"ConfigMap/b2", "ConfigMap/a2"}; !slices.Equal(got, want) {
				t.Errorf("applied: got %v, want %v", got, want)
			}
		},
		"an unknown service": func(t *testing.T, w *world) {
			w.plan(after(w.service(t, "app", "app"), "database"))
			w.wants(t, "app", report.Pending, notReady, `no service "database" is in this cluster's plan`)
			w.plan(after(w.service(t, "app", "app"), "database"), w.service(t, "database", "x"))
			w.wants(t, "app", report.Healthy, noReason)
		},
		"a circle": func(t *testing.T, w *world) {
			w.plan(after(w.service(t, "a", "a"), "b"), after(w.service(t, "b", "b"), "c"), after(w.service(t, "c", "c"), "a"), after(w.service(t, "d", "d"), "a"))
			w.wants(t, "a", report.Pending, notReady, "a depends on b depends on c depends on a")
			w.wants(t, "b", report.Pending, notReady, "b depends on c depends on a depends on b")
			w.wants(t, "d", report.Pending, notReady, `service "a" is Pending`)
			w.plan(after(w.service(t, "a", "a"), "b"), after(w.service(t, "b", "b"), "c"), w.service(t, "c", "c2"), after(w.service(t, "d", "d"), "a"))
			w.wants(t, "d", report.Healthy, noReason)
		},
		"itself": func(t *testing.T, w *world) {
			w.plan(after(w.service(t, "a", "a"), "a"))
			w.wants(t, "a", report.Pending, notReady, "a depends on a")
		},
		"several are counted": func(t *testing.T, w *world) {
			w.plan(after(w.service(t, "a", "a"), "b", "c", "d", "e", "f"))
			w.wants(t, "a", report.Pending, notReady, `"b"`, `"c"`, `"d"`, "and 2 more")
		},
		"a paused one": func(t *testing.T, w *world) {
			db := w.service(t, "db", "db")
			db.Spec.Paused = true
			w.plan(after(w.service(t, "app", "app"), "db"), db)
			w.wants(t, "app", report.Pending, notReady, `service "db" is Paused`)
		},
		"a failed one": func(t *testing.T, w *world) {
			w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
				if o.GetName() == "db" {
					return rejected()
				}
				return nil
			}
			w.plan(after(w.service(t, "app", "app"), "db"), w.service(t, "db", "db"))
			w.wants(t, "app", report.Pending, notReady, `service "db" is Failed`)
		},
		"what is applied is not questioned": func(t *testing.T, w *world) {
			app := after(w.service(t, "app", "app"), "db")
			w.plan(app, w.service(t, "db", "Pod:db"))
			synctest.Wait()
			w.heal("db", "Pod", "db", health.Healthy)
			w.wants(t, "app", report.Healthy, noReason)
			w.heal("db", "Pod", "db", health.Degraded)
			w.wants(t, "db", report.Degraded, reason.HealthTimeout)
			w.wants(t, "app", report.Healthy, noReason)
			app.SyncRequest = "now" // brings nothing new
			w.plan(app, w.service(t, "db", "Pod:db"))
			w.wants(t, "app", report.Healthy, noReason)
			next := after(w.service(t, "app", "app2"), "db")
			w.plan(next, w.service(t, "db", "Pod:db"))
			w.wants(t, "app", report.Pending, notReady, `service "db" is Degraded`)
			app.SyncRequest = ""
			w.plan(app, w.service(t, "db", "Pod:db")) // and back
			w.wants(t, "app", report.Healthy, noReason)
		},
		"the newest entry counts when it comes to it": func(t *testing.T, w *world) {
			db := w.service(t, "db", "Pod:db")
			w.plan(after(w.service(t, "app", "first"), "db"), db)
			synctest.Wait()
			w.plan(after(w.service(t, "app", "second"), "db"), db)
			synctest.Wait()
			w.heal("db", "Pod", "db", health.Healthy)
			w.wants(t, "app", report.Healthy, noReason)
			if got, want := w.applied, []string{"Pod/db", "ConfigMap/second"}; !slices.Equal(got, want) {
				t.Errorf("applied: got %v, want %v", got, want)
			}
		},
		"drift is put right meanwhile": func(t *testing.T, w *world) {
			w.plan(w.service(t, "app", "app", "old"))
			w.wants(t, "app", report.Healthy, noReason)
			w.plan(after(w.service(t, "app", "app", "new"), "nobody"))
			w.wants(t, "app", report.Pending, notReady)
			w.lose("app", "old")
			pass(t, time.Second)
			if w.live(configMapKey("old")) == nil || w.live(configMapKey("new")) != nil {
				t.Errorf("applied: got %v, want what is applied put right, and nothing new", w.applied)
			}
			w.wants(t, "app", report.Pending, notReady)
		},
		"pausing needs nobody": func(t *testing.T, w *world) {
			app := after(w.service(t, "app", "app"), "nobody")
			app.Spec.Paused, app.SpecDigest = true, "paused"
			w.plan(app)
			w.wants(t, "app", report.Paused, noReason)
			app.Spec.Paused, app.SpecDigest = false, "again"
			w.plan(app)
			w.wants(t, "app", report.Pending, notReady)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, reconcile.Settings{Workers: 1}, test) })
	}
}

func TestDependsOnObject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *world){
		"it has to exist": func(t *testing.T, w *world) {
			w.plan(afterObject(w.service(t, "app", "app"), "gate", ""))
			w.wants(t, "app", report.Pending, notReady, "ConfigMap default/gate does not exist")
			w.set(configMapKey("gate"), foreign("gate", nil))
			w.wants(t, "app", report.Healthy, noReason)
			if got := w.followers(configMapKey("gate")); got != 0 {
				t.Errorf("followers: got %d, want none: nobody waits", got)
			}
		},
		"a condition": func(t *testing.T, w *world) {
			w.set(configMapKey("gate"), foreign("gate", map[string]any{"open": "no"}))
			w.plan(afterObject(w.service(t, "app", "app"), "gate", `self.data.open == "yes"`))
			w.wants(t, "app", report.Pending, notReady, `does not meet "self.data.open == \"yes\""`)
			w.set(configMapKey("gate"), foreign("gate", nil)) // without the field
			w.wants(t, "app", report.Pending, notReady, "does not meet")
			w.set(configMapKey("gate"), foreign("gate", map[string]any{"open": "yes"}))
			w.wants(t, "app", report.Healthy, noReason)
		},
		"a condition that cannot be read": func(t *testing.T, w *world) {
			w.set(configMapKey("gate"), foreign("gate", nil))
			w.plan(afterObject(w.service(t, "app", "app"), "gate", "self.data.("))
			w.wants(t, "app", report.Pending, notReady, "the condition on ConfigMap default/gate cannot be read")
		},
		"what is known at once is said at once": func(t *testing.T, w *world) {
			w.set(configMapKey("gate"), foreign("gate", nil))
			app := afterObject(w.service(t, "app", "app"), "gate", "self.data.(")
			w.plan(app)
			w.wants(t, "app", report.Pending, notReady, "the condition on ConfigMap default/gate cannot be read")
			// Nothing but the edit wakes the service, and nothing of the object is read.
			app.Spec.Policy.DependsOn[0].Condition, app.SpecDigest = "self.data.)", "edited"
			w.plan(app)
			w.wants(t, "app", report.Pending, notReady, "the condition on ConfigMap default/gate cannot be read")
			app.Spec.Policy.DependsOn[0].Condition, app.SpecDigest = "self.(", "again"
			w.plan(app)
			synctest.Wait()
			if got := w.status("app").Problem; got == nil || strings.Contains(got.Message, "examined") {
				t.Errorf("got %v, want what is known of the condition", got)
			}
		},
		"only a service that waits looks": func(t *testing.T, w *world) {
			app := afterObject(w.service(t, "app", "app"), "gate", "")
			w.plan(app)
			synctest.Wait()
			if got := w.followers(configMapKey("gate")); got != 1 {
				t.Errorf("followers: got %d, want 1", got)
			}
			app.Spec.Paused, app.SpecDigest = true, "paused"
			w.plan(app)
			synctest.Wait()
			if got := w.followers(configMapKey("gate")); got != 0 {
				t.Errorf("followers while paused: got %d, want 0", got)
			}
			app.Spec.Paused, app.SpecDigest = false, "again"
			w.plan(app)
			synctest.Wait()
			w.plan() // it leaves the plan
			synctest.Wait()
			if got := w.followers(configMapKey("gate")); got != 0 {
				t.Errorf("followers after it left: got %d, want 0", got)
			}
		},
		"a failing run is not tried more often": func(t *testing.T, w *world) {
			tries := 0
			w.onApply = func(context.Context, *unstructured.Unstructured) error {
				tries++
				return rejected()
			}
			w.set(configMapKey("gate"), foreign("gate", nil))
			w.plan(afterObject(w.service(t, "app", "app"), "gate", ""))
			pass(t, 10*time.Minute)
			// The waits are random, up to 1, 2, 4, and in the end 300 s: 12 tries are usual, and more than 18 come in one of twenty
			// thousand runs. To try at each look at the object would be a hundred.
			if tries < 5 || tries > 30 {
				t.Errorf("tries in ten minutes: got %d, want a few, spaced", tries)
			}
			assertPhase(t, w, "app", report.Failed)
			w.set(configMapKey("gate"), nil)
			w.wants(t, "app", report.Pending, notReady)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, reconcile.Settings{}, test) })
	}
}

func TestRemovalOrder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *world){
		"dependents go first": func(t *testing.T, w *world) {
			w.onDelete = func(ctx context.Context, o inventory.Object) error {
				if o.Name == "b" {
					<-time.After(time.Second)
				}
				return ctx.Err()
			}
			w.plan(w.service(t, "a", "a"), after(w.service(t, "b", "b"), "a"), after(w.service(t, "c", "c"), "b"), w.service(t, "stays", "stays"))
			synctest.Wait()
			w.plan(w.service(t, "stays", "stays"))
			pass(t, 2*time.Second)
			if got, want := w.deleted, []string{"c", "b", "a"}; !slices.Equal(got, want) {
				t.Errorf("deleted: got %v, want %v", got, want)
			}
		},
		"a circle is removed anyway": func(t *testing.T, w *world) {
			w.plan(w.service(t, "a", "a"), after(w.service(t, "b", "b"), "a"), w.service(t, "stays", "stays"))
			synctest.Wait()
			w.plan(after(w.service(t, "a", "a2"), "b"), after(w.service(t, "b", "b"), "a"), w.service(t, "stays", "stays"))
			synctest.Wait()
			w.plan(w.service(t, "stays", "stays"))
			synctest.Wait()
			if _, deleted := w.count(); deleted != 2 {
				t.Errorf("deleted: got %v, want both", w.deleted)
			}
		},
		"a service that stays does not hold it": func(t *testing.T, w *world) {
			b := after(w.service(t, "b", "b"), "a")
			w.plan(w.service(t, "a", "a"), b)
			synctest.Wait()
			w.plan(b)
			synctest.Wait()
			if got, want := w.deleted, []string{"a"}; !slices.Equal(got, want) {
				t.Errorf("deleted: got %v, want %v", got, want)
			}
			assertPhase(t, w, "b", report.Healthy)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, reconcile.Settings{}, test) })
	}
}

// TestRemovalOrderAfterRestart shows that the order survives a restart.
func TestRemovalOrderAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		for service, on := range map[string][]string{"a": nil, "b": {"a"}} {
			live := foreign(service, nil)
			live.SetLabels(map[string]string{k8s.ServiceLabel: service})
			w.objects[configMapKey(service)] = live
			w.records[service] = inventory.Record{
				Service: service, Owner: "us", Prune: true, DependsOn: on, Applied: inventory.Applied{SpecDigest: "x"},
				Objects: inventory.NewSet(inventory.Object{Ref: inventory.RefOf(live), UID: string(live.GetUID())}),
			}
		}
		w.run(t)
		w.plan()
		synctest.Wait()
		if got, want := w.deleted, []string{"b", "a"}; !slices.Equal(got, want) {
			t.Errorf("deleted: got %v, want %v", got, want)
		}
	})
}

// TestDriftWhileWaitingAfterRestart shows that drift is corrected while a change waits, also by a
// process that has not applied the objects.
func TestDriftWhileWaitingAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		old, next := w.service(t, "app", "old"), after(w.service(t, "app", "new"), "nobody")
		next.SpecDigest = "another"
		for _, s := range []plan.Service{old, next} {
			w.engine = w.newEngine()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.engine.Run(ctx) }()
			w.plan(s)
			synctest.Wait()
			if s.SpecDigest == next.SpecDigest {
				w.wants(t, "app", report.Pending, notReady)
				w.lose("app", "old")
				pass(t, time.Second)
				w.wants(t, "app", report.Pending, notReady)
			}
			cancel()
			<-done
		}
		if w.live(configMapKey("old")) == nil || w.live(configMapKey("new")) != nil {
			t.Errorf("applied: got %v, want what is applied put right, and nothing new", w.applied)
		}
	})
}
