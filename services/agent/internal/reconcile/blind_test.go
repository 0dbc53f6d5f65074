// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestBlind restarts an agent without the right to watch a kind, until it gets the right.
func TestBlind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		stop := w.runUntil(t)
		s := w.follow(t, syncpolicy.DriftCorrect, "a", "b")
		stop()
		w.engine = w.newEngine()
		w.run(t)
		w.plan(s)
		synctest.Wait()
		w.engine.Observe(sight(w.objects[keyOf("a")]))
		w.engine.MarkUnobservable(keyOf("a").GroupKind(), observe.Scope{}, "may not be watched")
		synctest.Wait()
		got := w.status("s")
		want := health.Verdict{State: health.Unknown, Message: "may not be watched"}
		if len(got.Objects) != 1 || got.Objects[0].Ref.Name != "b" || got.Objects[0].Health != want {
			t.Errorf("objects: got %+v, want b alone with %+v", got.Objects, want)
		}
		assertPhase(t, w, "s", report.Progressing)
		w.assertApplied(t)

		w.erase("b")
		w.engine.Synced(keyOf("a").GroupKind(), observe.Scope{})
		synctest.Wait()
		if got := w.status("s").Objects; len(got) != 1 || !strings.HasPrefix(got[0].Health.Message, "is not in the cluster") {
			t.Errorf("objects after a list without b: got %+v, want it missing", got)
		}
	})
}
