// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestRefusedServiceIsLeftAsItIs sets and removes an unsupported policy.
func TestRefusedServiceIsLeftAsItIs(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.plan(w.service(t, "s", "a", "b"))
		pass(t, time.Second)
		applied, _ := w.count()

		newer := w.service(t, "s", "a")
		newer.SpecDigest, newer.Refused = "newer", reconcile.Refuse(errors.New("drift: is not known"))
		w.plan(newer)
		pass(t, 24*time.Hour)
		assertPhase(t, w, "s", report.Failed)
		if got := w.status("s").Problem; got.Reason != reason.Unimplemented {
			t.Errorf("got %+v, want UNIMPLEMENTED", got)
		}
		if after, deleted := w.count(); after != applied || deleted != 0 {
			t.Errorf("got %d applies and %d deletions, want none", after-applied, deleted)
		}

		newer.SpecDigest, newer.Refused = "understood", nil
		w.plan(newer)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
	})
}
