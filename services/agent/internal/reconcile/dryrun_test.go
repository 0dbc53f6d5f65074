// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// dry makes a service a dry run, which changes its spec.
func dry(s plan.Service) plan.Service {
	s.Spec.DryRun, s.SpecDigest = true, s.SpecDigest+"-dry"
	return s
}

func change(what report.Change, name string) report.DryRunChange {
	return report.DryRunChange{Ref: inventory.Ref{Key: configMapKey(name), Version: "v1"}, Change: what}
}

// looks counts reads of objects.
func (w *world) looks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}

func (w *world) reports(t *testing.T, want *report.DryRun) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, w.status("s").DryRun); diff != "" {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *world){
		"nothing is written": func(t *testing.T, w *world) {
			w.plan(dry(w.service(t, "s", "a", "b")))
			w.wants(t, "s", report.Pending, noReason)
			w.reports(t, &report.DryRun{Created: 2, Changes: []report.DryRunChange{change(report.Create, "a"), change(report.Create, "b")}})
			if got, _ := w.count(); got != 0 || w.saves != 0 || len(w.records) != 0 {
				t.Errorf("got %d applied, %d inventories stored, want none", got, w.saves)
			}
		},
		"then it is applied": func(t *testing.T, w *world) {
			s := w.service(t, "s", "a")
			w.plan(dry(s))
			synctest.Wait()
			w.plan(s)
			w.wants(t, "s", report.Healthy, noReason)
			w.reports(t, nil)
		},
		"what is applied stays and keeps its phase": func(t *testing.T, w *world) {
			w.plan(w.service(t, "s", "a", "b", "Pod:p"))
			synctest.Wait()
			w.plan(dry(w.service(t, "s", "b", "c", "Pod:p")))
			w.wants(t, "s", report.Progressing, noReason)
			w.reports(t, &report.DryRun{
				Created: 1, Deleted: 1, Unchanged: 2, Changes: []report.DryRunChange{change(report.Delete, "a"), change(report.Create, "c")},
			})
			w.heal("s", "Pod", "p", health.Healthy)
			w.wants(t, "s", report.Healthy, noReason)
			if applied, deleted := w.count(); applied != 3 || deleted != 0 {
				t.Errorf("got %d applied, %d deleted, want 3 and 0", applied, deleted)
			}
			if got := w.status("s"); got.Observed.SpecDigest != "spec-s-dry" || got.Applied.SpecDigest != "spec-s" {
				t.Errorf("observed: got %q, want what was compared", got.Observed.SpecDigest)
			}
		},
		"what is applied stays when the service leaves": func(t *testing.T, w *world) {
			w.plan(w.service(t, "s", "a", "b"), w.service(t, "other", "c"))
			synctest.Wait()
			w.plan(dry(w.service(t, "s", "a", "b")), w.service(t, "other", "c"))
			synctest.Wait()
			w.plan(w.service(t, "other", "c"))
			synctest.Wait()
			for _, name := range []string{"a", "b"} {
				if live := w.live(configMapKey(name)); live == nil || k8s.ServiceOf(live) != "" {
					t.Errorf("%s: got %v, want the object without the label", name, live)
				}
			}
			if _, isStored := w.records["s"]; isStored {
				t.Error("the inventory is still there")
			}
		},
		"the inventory tells the next process what stays": func(t *testing.T, w *world) {
			for _, isDry := range []bool{false, true, false} {
				s := w.service(t, "s", "a")
				if isDry {
					s = dry(s)
				}
				w.plan(s)
				synctest.Wait()
				if got := w.records["s"].Prune; got == isDry {
					t.Errorf("dry run %v: got an inventory whose objects are deleted with the service: %v", isDry, got)
				}
			}
		},
		"an update": func(t *testing.T, w *world) {
			w.plan(w.service(t, "s", "a"))
			synctest.Wait()
			live := w.live(configMapKey("a"))
			live.SetLabels(map[string]string{"by": "hand"})
			w.set(configMapKey("a"), live)
			w.plan(dry(w.service(t, "s", "a")))
			w.reports(t, &report.DryRun{Updated: 1, Changes: []report.DryRunChange{change(report.Update, "a")}})
		},
		"once, as long as nothing changes": func(t *testing.T, w *world) {
			s := dry(w.service(t, "s", "a"))
			w.plan(s)
			synctest.Wait()
			before := w.looks()
			pass(t, 48*time.Hour)
			w.plan(s)
			synctest.Wait()
			if got := w.looks() - before; got != 0 {
				t.Errorf("objects read: got %d, want none", got)
			}
			s.SyncRequest = "again"
			w.plan(s)
			synctest.Wait()
			if got := w.looks() - before; got != 1 {
				t.Errorf("objects read after a sync: got %d, want 1", got)
			}
			if got := w.status("s").ObservedSyncRequest; got != "again" {
				t.Errorf("sync request: got %q, want it carried out", got)
			}
		},
		"again at a refresh where an object changed": func(t *testing.T, w *world) {
			w.plan(w.service(t, "s", "a"))
			synctest.Wait()
			w.plan(dry(w.service(t, "s", "a")))
			synctest.Wait()
			before := w.looks()
			w.lose("s", "a")
			pass(t, time.Minute)
			if got := w.looks() - before; got != 0 {
				t.Errorf("objects read before the refresh: got %d, want none", got)
			}
			w.wants(t, "s", report.Degraded, reason.HealthTimeout) // drift is reported, and not put right
			pass(t, 3*time.Hour)
			w.reports(t, &report.DryRun{Created: 1, Changes: []report.DryRunChange{change(report.Create, "a")}})
			w.plan(w.service(t, "s", "a"))
			w.wants(t, "s", report.Healthy, noReason) // no longer dry: it is put right
		},
		"needs nobody": func(t *testing.T, w *world) {
			w.plan(after(dry(w.service(t, "s", "a")), "nobody"))
			w.reports(t, &report.DryRun{Created: 1, Changes: []report.DryRunChange{change(report.Create, "a")}})
		},
		"no tests are run": func(t *testing.T, w *world) {
			w.plan(dry(w.tested(t, map[string]string{"tests/a.yaml": jobFile("a", "")})))
			w.reports(t, &report.DryRun{Created: 1, Changes: []report.DryRunChange{change(report.Create, "app")}})
			if w.live(jobKey("a")) != nil {
				t.Error("a test was run")
			}
		},
		"no hooks are run": func(t *testing.T, w *world) {
			s := w.service(t, "s")
			s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": configMapFile("a"), "h.yaml": jobFile("h", "leat.dev/phase: PreSync")})
			w.plan(dry(s))
			w.reports(t, &report.DryRun{Created: 1, Changes: []report.DryRunChange{change(report.Create, "a")}})
		},
		"what cannot be rendered": func(t *testing.T, w *world) {
			s := w.service(t, "s")
			s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": "kind: ["})
			w.plan(dry(s))
			w.wants(t, "s", report.Failed, reason.ManifestInvalid)
			w.reports(t, nil)
		},
		"what would be refused": func(t *testing.T, w *world) {
			s := w.service(t, "s", "a")
			w.plan(s)
			synctest.Wait()
			w.onApply = func(context.Context, *unstructured.Unstructured) error { return rejected() }
			s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": manifest("a", "another")})
			w.plan(dry(s))
			w.wants(t, "s", report.Failed, reason.ApplyRejected, "compare")
			w.reports(t, nil)
		},
		"paused": func(t *testing.T, w *world) {
			s := dry(w.service(t, "s", "a"))
			s.Spec.Paused = true
			w.plan(s)
			w.wants(t, "s", report.Paused, noReason)
			w.reports(t, nil)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, reconcile.Settings{}, test) })
	}
}

// TestPause shows that nothing is written while a service is paused, and that it continues at once.
func TestPause(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a", "b")
		w.plan(s)
		synctest.Wait()
		paused := s
		paused.Spec.Paused, paused.SpecDigest = true, "paused"
		w.plan(paused)
		w.wants(t, "s", report.Paused, noReason)
		w.lose("s", "a")
		if err := w.engine.Reconcile("s"); err != nil {
			t.Fatal(err)
		}
		saves := w.saves
		pass(t, 24*time.Hour)
		w.wants(t, "s", report.Paused, noReason)
		if got := w.status("s").Counts; got.Failed != 1 {
			t.Errorf("counts: got %+v, want one missing object: health is watched", got)
		}
		if applied, deleted := w.count(); applied != 2 || deleted != 0 || w.saves != saves {
			t.Errorf("got %d applied, %d deleted, %d inventories stored, want nothing more", applied, deleted, w.saves-saves)
		}
		w.plan(s)
		w.wants(t, "s", report.Healthy, noReason)
		if w.live(configMapKey("a")) == nil {
			t.Error("what was deleted meanwhile is still missing")
		}
	})
}
