// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
)

// TestRefusedContentIsNotDelivered has no room for a commit: what was delivered and stored before stays,
// and it is asked for a few times a minute, until there is room.
func TestRefusedContentIsNotDelivered(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	run(t, w, func(t *testing.T, _ *resolve.Loop) {
		w.mu.Lock()
		w.refusal = "no room"
		w.answersAsOf(time.Time{}, "two", nil)
		w.mu.Unlock()
		w.asks(t, source)
		check := func(commit string, why reason.Reason) {
			t.Helper()
			r := w.Resolution(source)
			got := reason.Reason(0)
			if r.Problem != nil {
				got = r.Problem.Reason
			}
			if r.Snapshot.Commit != commit || got != why {
				t.Errorf("got %s and %v, want %s and %v", r.Snapshot.Commit, got, commit, why)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.saved[source].Snapshot.Commit != commit || w.reserved != 0 {
				t.Errorf("stored %s and kept %d reservations, want %s and none", w.saved[source].Snapshot.Commit, w.reserved, commit)
			}
		}
		check("one", reason.ProjectQuotaExceeded)
		if r := w.Resolution(source); r.Problem.Message != "no room" {
			t.Errorf("got %q, want what the quota says", r.Problem.Message)
		}
		asked := w.count(source)
		pass(5 * time.Minute)
		if n := w.count(source) - asked; n < 5 || n > 21 {
			t.Errorf("it was asked for %d times in five minutes, want every 15 to 30 s", n)
		}
		check("one", reason.ProjectQuotaExceeded)
		w.mu.Lock()
		w.refusal = ""
		w.mu.Unlock()
		pass(31 * time.Second)
		check("two", 0)
	})
}
