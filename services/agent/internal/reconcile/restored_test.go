// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// planOfRestored hands out the plan of a hub that was restored from a backup.
func (w *world) planOfRestored(at time.Time, services ...plan.Service) {
	w.engine.SetPlan(plan.Plan{Services: services, RemovalsHeldSince: at})
}

// present reports whether the cluster has an object of that name.
func (w *world) present(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.objects {
		if key.Name == name {
			return true
		}
	}
	return false
}

// TestRestoredHubRemovesNothing follows the plan of a hub that was restored from a backup: what the
// plan lacks stays, in services and as services, however little it is and even if the agent restarts,
// and nothing is applied again. A person's agreement removes exactly one prune, and the release of
// the cluster the rest.
func TestRestoredHubRemovesNothing(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		restored := time.Now()
		kept, made := w.service(t, "kept", "kept"), w.service(t, "made", "made")
		before := []plan.Service{
			w.service(t, "grown", "g0", "g1", "g2", "g3", "g4", "g5"), w.service(t, "agreed", "a0", "a1", "a2", "a3", "a4", "a5"),
		}
		after := []plan.Service{
			w.service(t, "grown", "g0", "g1", "g2", "g3", "g4", "g5", "g6"), w.service(t, "agreed", "a0", "a1", "a2", "a3", "a4", "a5", "a6"),
		}
		w.plan(append(after, kept, made)...)
		pass(t, time.Second)
		applied, _ := w.count()

		back := append(before, kept) // one object of seven, and one service of four: far below the guard
		w.planOfRestored(restored, back...)
		pass(t, 3*time.Hour)
		if _, deleted := w.count(); deleted != 0 {
			t.Fatalf("deleted: got %d objects, want none", deleted)
		}
		for _, service := range []string{"grown", "agreed", "made"} {
			got := w.status(service)
			if got.Problem == nil || got.Problem.Reason != reason.PruneGuarded || !strings.Contains(got.Problem.Message, "restored from a backup") {
				t.Errorf("%s: got %s, %+v, want PRUNE_GUARDED with its cause", service, got.Phase, got.Problem)
			}
		}
		assertPhase(t, w, "kept", report.Healthy)

		before[1].Spec.PruneConfirmation, before[1].SpecDigest = w.status("agreed").Guarded.Digest, "agreed to"
		w.planOfRestored(restored, append(before, kept)...)
		pass(t, time.Second)
		if _, deleted := w.count(); deleted != 1 || w.present("a6") {
			t.Errorf("deleted: got %d objects, want the one that a person agreed to", deleted)
		}

		w.plan(append(before, kept)...) // a person releases the cluster
		pass(t, time.Minute)
		if _, deleted := w.count(); deleted != 3 || w.present("g6") || w.present("made") {
			t.Errorf("deleted: got %d objects, want all three that the plan lacks", deleted)
		}
		if now, _ := w.count(); now != applied {
			t.Errorf("applied: got %d objects, want the %d of before the restore", now, applied)
		}
		assertPhase(t, w, "grown", report.Healthy)
	})
}
