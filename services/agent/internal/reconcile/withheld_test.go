// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestWithheldServiceIsLeftAsItIs has the hub withhold a service that is applied, as it does if the
// agent cannot render it any more: another spec, and no bundles. The hub relies on what this test
// shows: nothing changes and nothing is deleted, however long it lasts, and even without a guard.
func TestWithheldServiceIsLeftAsItIs(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		given := w.service(t, "s", "a", "b")
		w.plan(given)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
		applied, _ := w.count()

		withheld := given
		withheld.SpecDigest, withheld.Bundles = "steps", nil
		withheld.Spec.Policy = syncpolicy.Policy{Deletion: syncpolicy.Deletion{Namespaces: true, Definitions: true, VolumeClaims: true}}
		for range 3 {
			w.plan(withheld)
			pass(t, 24*time.Hour)
			assertPhase(t, w, "s", report.Pending)
			withheld.SyncRequest += "again" // a person insists
		}
		if after, deleted := w.count(); after != applied || deleted != 0 {
			t.Errorf("got %d applies and %d deletions, want none", after-applied, deleted)
		}

		changed := w.service(t, "s", "a", "b", "c")
		changed.SpecDigest = "steps"
		w.plan(changed)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
		if _, deleted := w.count(); deleted != 0 {
			t.Errorf("got %d deletions, want none", deleted)
		}
	})
}
