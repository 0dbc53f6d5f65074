// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// owned makes the world answer like an API server with managers that own keys of data. One more
// manager appears after each apply.
func (w *world) owned(by map[string]string, newcomers ...string) {
	w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
		data, _ := o.Object["data"].(map[string]any)
		var conflicts []k8s.Conflict
		for key := range data {
			if by[key] != "" {
				conflicts = append(conflicts, k8s.Conflict{Manager: by[key], Field: ".data." + key})
			}
		}
		if len(newcomers) > 0 {
			by[newcomers[0]] = "newcomer"
			newcomers = newcomers[1:]
		}
		if len(conflicts) == 0 {
			return nil
		}
		return k8s.NewConflictError(conflicts, false)
	}
}

// TestConflictsThatNeverEnd has a new conflict after each yielded one. The attempts of one run are
// bounded, and nothing is lost.
func TestConflictsThatNeverEnd(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]report.Phase{1: report.Healthy, 3: report.Healthy, 4: report.Failed, 8: report.Failed} {
		t.Run(fmt.Sprint(tries), func(t *testing.T) {
			bubble(t, reconcile.Settings{Refresh: 1000 * time.Hour}, func(t *testing.T, w *world) {
				var newcomers, keys []string
				for i := range tries {
					key := fmt.Sprintf("k%d", i)
					keys = append(keys, key+": '1'")
					newcomers = append(newcomers, key)
				}
				w.owned(map[string]string{newcomers[0]: "newcomer"}, newcomers[1:]...)
				s := w.service(t, "s")
				s.Bundles[0].Digest = w.pack(t, map[string]string{
					"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {rest: '1', " + strings.Join(keys, ", ") + "}\n",
				})
				s.Spec.Policy.Conflicts = []syncpolicy.ConflictRule{{Manager: "newcomer", Action: syncpolicy.ConflictYield}}
				w.plan(s)
				pass(t, 0)
				assertPhase(t, w, "s", want)
				if got := w.status("s").Problem; want == report.Failed && (got == nil || got.Reason != reason.ApplyConflict) {
					t.Errorf("got %v, want APPLY_CONFLICT", got)
				}
				pass(t, 10*time.Minute) // the next try has all of them before it
				assertPhase(t, w, "s", report.Healthy)
				w.assertApplied(t, "a")
			})
		})
	}
}

// TestYieldedIsTold shows that watchers of a service receive one event about yielded fields.
func TestYieldedIsTold(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.owned(map[string]string{"value": "tuner"})
		s := w.service(t, "s")
		s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": manifest("a", "1")})
		s.Spec.Policy.Conflicts = []syncpolicy.ConflictRule{{Manager: "tuner", Action: syncpolicy.ConflictYield}}
		events, stop := w.engine.Subscribe("")
		w.plan(s)
		pass(t, 24*time.Hour)
		stop()
		var told []string
		for event := range events {
			if strings.Contains(event.Message, "tuner") {
				told = append(told, event.Object.Name+" "+event.Message)
			}
		}
		if want := []string{"a some fields are left to others: tuner keeps data.value"}; !slices.Equal(told, want) {
			t.Errorf("events: got %q, want %q", told, want)
		}
		w.assertApplied(t, "a")
	})
}
