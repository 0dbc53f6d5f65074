// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

var migration = inventory.Key{Group: "batch", Kind: "Job", Namespace: "default", Name: "migrate"}

// migrate returns a service of one Job.
func (w *world) migrate(t *testing.T, image string) plan.Service {
	t.Helper()
	s := w.service(t, "app")
	s.SpecDigest += image
	s.Bundles[0].Digest = w.pack(t, map[string]string{
		"job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec: {ttlSecondsAfterFinished: 0, image: " + image + "}\n",
	})
	return s
}

// completes ends the Job, as the Job controller does.
func (w *world) completes(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	o := w.objects[migration].DeepCopy()
	w.writes++
	o.SetResourceVersion(fmt.Sprint(w.writes))
	conditions := []any{map[string]any{"type": "Complete", "status": "True"}}
	if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	w.objects[migration] = o
	seen := sight(o)
	w.mu.Unlock()
	w.engine.Observe(seen)
	synctest.Wait()
}

// expires deletes the Job, as the controller for finished Jobs does.
func (w *world) expires() {
	w.mu.Lock()
	live := w.objects[migration]
	delete(w.objects, migration)
	w.writes++
	seen := gone(live, w.writes)
	w.mu.Unlock()
	w.engine.Observe(seen)
	synctest.Wait()
}

// once returns the stored data about the Job.
func (w *world) once() []inventory.Once {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records["app"].Once
}

// migrations counts the creations of the Job.
func (w *world) migrations() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, applied := range w.applied {
		if applied == "Job/migrate" {
			n++
		}
	}
	return n
}

// TestFinishedJobIsNotMadeAgain deletes a Job after its end. Only a change of its content creates
// it again.
func TestFinishedJobIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for name, losesFingerprints := range map[string]bool{"restart": false, "restart without fingerprints": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(reconcile.Settings{})
				stop := w.runUntil(t)
				s := w.migrate(t, "one")
				w.plan(s)
				time.Sleep(time.Second)
				w.completes(t)
				if once := w.once(); len(once) != 1 || !once[0].Done || once[0].Key != migration {
					t.Errorf("inventory: got %+v, want that the Job is done", once)
				}
				w.expires()
				still := func(when string, want int) {
					t.Helper()
					time.Sleep(5 * time.Hour)
					if got := w.migrations(); got != want {
						t.Errorf("%s: the Job was made %d times, want %d", when, got, want)
					}
					if got := w.status("app"); got.Phase != report.Healthy {
						t.Errorf("%s: got %v, %v, want it healthy", when, got.Phase, got.Problem)
					}
				}
				still("refreshes", 1)
				if err := w.engine.Reconcile("app"); err != nil {
					t.Fatal(err)
				}
				still("a request", 1)
				if found, err := w.engine.Diff(t.Context(), "app"); err != nil || len(found) > 0 {
					t.Errorf("diff: got %+v, %v, want none", found, err)
				}
				stop()
				if losesFingerprints {
					clear(w.prints)
				}
				w.engine = w.newEngine()
				w.runUntil(t)
				w.plan(s)
				time.Sleep(time.Second)
				w.engine.Synced(migration.GroupKind(), observe.Scope{})
				still("a restart", 1)
				w.plan(w.migrate(t, "two"))
				time.Sleep(time.Second)
				w.completes(t)
				still("another content", 2)
				w.expires()
				still("the end of that", 2)
				w.plan(w.service(t, "app"))
				time.Sleep(time.Second)
				if once := w.once(); len(once) > 0 {
					t.Errorf("inventory: got %+v, want nothing of a Job that left", once)
				}
			})
		})
	}
}

// TestUnfinishedJobIsMadeAgain deletes a Job before its end.
func TestUnfinishedJobIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		w.run(t)
		w.plan(w.migrate(t, "one"))
		time.Sleep(time.Second)
		w.expires()
		time.Sleep(time.Second)
		if got := w.migrations(); got != 2 {
			t.Errorf("the Job was made %d times, want 2", got)
		}
	})
}

// TestCompletionOfAnotherObject counts an end for the Job only if it is the Job's.
func TestCompletionOfAnotherObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		w.run(t)
		w.plan(w.migrate(t, "one"))
		time.Sleep(time.Second)
		w.mu.Lock()
		setUID("of-somebody-else")(w.objects[migration])
		w.mu.Unlock()
		w.completes(t)
		if slices.ContainsFunc(w.once(), func(o inventory.Once) bool { return o.Done }) {
			t.Error("another object's end counts as the Job's")
		}
	})
}

// TestCompletionThatCannotBeStored rejects inventories for an hour. The agent retries with growing
// pauses.
func TestCompletionThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for name, isPaused := range map[string]bool{"followed": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(reconcile.Settings{})
				w.run(t)
				s := w.migrate(t, "one")
				w.plan(s)
				time.Sleep(time.Second)
				if isPaused {
					s.Spec.Paused, s.SpecDigest = true, "paused"
					w.plan(s)
					time.Sleep(time.Second)
				}
				refuse := func(refuses bool) (saves int) {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.refusesSaves = refuses
					return w.saves
				}
				before := refuse(true)
				w.completes(t)
				time.Sleep(time.Hour)
				if tries := refuse(false) - before; tries < 5 || tries > 60 { // about 33, by the jitter
					t.Errorf("%d tries within an hour, want some, with pauses", tries)
				}
				time.Sleep(10 * time.Minute)
				if once := w.once(); len(once) != 1 || !once[0].Done {
					t.Errorf("inventory: got %+v, want that the Job is done", once)
				}
			})
		})
	}
}

// TestCompletionOfTheOldContent reports the old Job's end while the Job is created for another
// content.
func TestCompletionOfTheOldContent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		w.run(t)
		w.plan(w.migrate(t, "one"))
		time.Sleep(time.Second)
		w.completes(t)
		w.mu.Lock()
		late := sight(w.objects[migration])
		w.mu.Unlock()
		w.onApply = func(context.Context, *unstructured.Unstructured) error {
			w.set(migration, nil) // the Job's template cannot be changed, so that it becomes another Job
			w.engine.Observe(late)
			return nil
		}
		w.plan(w.migrate(t, "two"))
		time.Sleep(time.Second)
		if once := w.once(); len(once) != 1 || once[0].Done {
			t.Errorf("inventory: got %+v, want a Job that is not done", once)
		}
		w.onApply = nil
		w.expires()
		time.Sleep(time.Second)
		if got := w.migrations(); got != 3 {
			t.Errorf("the Job was made %d times, want 3: its second run was cut off", got)
		}
	})
}

// TestObjectThatStandsTwice changes nothing, in any combination of waves and files.
func TestObjectThatStandsTwice(t *testing.T) {
	t.Parallel()
	const later = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twin, namespace: default, annotations: {leat.dev/wave: '5'}}\n"
	for name, files := range map[string]map[string]string{
		"two waves":  {"a.yaml": manifest("first", "1") + "---\n" + manifest("twin", "1"), "b.yaml": later},
		"a hook too": {"a.yaml": manifest("first", "1") + "---\n" + manifest("twin", "1"), "b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twin, annotations: {leat.dev/phase: PostSync}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(reconcile.Settings{})
				w.run(t)
				s := w.service(t, "app")
				s.Bundles[0].Digest = w.pack(t, files)
				w.plan(s)
				time.Sleep(time.Second)
				w.wants(t, "app", report.Failed, reason.ManifestInvalid, "twin", "twice", "a.yaml, document 2", "b.yaml, document 1")
				if applied, _ := w.count(); applied > 0 {
					t.Errorf("%d objects were applied, want none", applied)
				}
			})
		})
	}
}
