// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// during sets a service's windows. Virtual time begins at midnight, at the beginning of the year
// 2000, a Saturday.
func during(s plan.Service, windows ...syncpolicy.Window) plan.Service {
	s.Spec.Policy.Windows = windows
	return s
}

const closed = reason.SyncWindowClosed

func TestWindows(t *testing.T) {
	t.Parallel()
	night := syncpolicy.Window{Schedule: "0 2 * * *", Duration: time.Hour}
	freeze := syncpolicy.Window{Schedule: "0 0 1 1 *", Duration: 48 * time.Hour, Deny: true}
	strict := func(w syncpolicy.Window) syncpolicy.Window {
		w.Strict = true
		return w
	}
	for name, test := range map[string]func(*testing.T, *world){
		"a change waits and goes on by itself": func(t *testing.T, w *world) {
			w.plan(during(w.service(t, "s", "a"), night))
			w.wants(t, "s", report.Pending, closed, "opens at 2000-01-01 02:00 UTC")
			pass(t, 2*time.Hour-time.Nanosecond)
			assertPhase(t, w, "s", report.Pending)
			pass(t, time.Nanosecond)
			w.wants(t, "s", report.Healthy, noReason)
		},
		"the next night": func(t *testing.T, w *world) {
			pass(t, 150*time.Minute)
			w.plan(during(w.service(t, "s", "a"), night))
			w.wants(t, "s", report.Healthy, noReason) // half past two
			pass(t, time.Hour)
			w.plan(during(w.service(t, "s", "b"), night))
			w.wants(t, "s", report.Pending, closed, "2000-01-02 02:00 UTC")
			pass(t, 24*time.Hour)
			w.wants(t, "s", report.Healthy, noReason)
			if got, want := w.deleted, []string{"a"}; !slices.Equal(got, want) {
				t.Errorf("deleted: got %v, want %v", got, want)
			}
		},
		"a time zone": func(t *testing.T, w *world) {
			w.plan(during(w.service(t, "s", "a"), syncpolicy.Window{Schedule: "0 2 * * *", Duration: time.Hour, TimeZone: "Europe/Berlin"}))
			w.wants(t, "s", report.Pending, closed, "2000-01-01 01:00 UTC")
		},
		"a freeze": func(t *testing.T, w *world) {
			w.plan(during(w.service(t, "s", "a"), freeze))
			w.wants(t, "s", report.Pending, closed, "2000-01-03 00:00 UTC")
			pass(t, 48*time.Hour)
			w.wants(t, "s", report.Healthy, noReason)
		},
		"a person passes": func(t *testing.T, w *world) {
			s := during(w.service(t, "s", "a"), night, freeze)
			w.plan(s)
			w.wants(t, "s", report.Pending, closed)
			s.SyncRequest = "please"
			w.plan(s)
			w.wants(t, "s", report.Healthy, noReason)
			next := during(w.service(t, "s", "b"), night, freeze)
			next.SyncRequest = "please" // long carried out
			w.plan(next)
			w.wants(t, "s", report.Pending, closed)
			if err := w.engine.Reconcile("s"); err != nil {
				t.Fatal(err)
			}
			w.wants(t, "s", report.Healthy, noReason)
		},
		"a person's leave is for what was there": func(t *testing.T, w *world) {
			w.onApply = func(context.Context, *unstructured.Unstructured) error { return rejected() }
			s := during(w.service(t, "s", "a"), night)
			s.SyncRequest = "please"
			w.plan(s)
			w.wants(t, "s", report.Failed, reason.ApplyRejected)
			pass(t, time.Minute)
			w.wants(t, "s", report.Failed, reason.ApplyRejected) // tried again, for the person asked for it
			next := during(w.service(t, "s", "b"), night)
			next.SyncRequest = "please"
			w.plan(next)
			w.wants(t, "s", report.Pending, closed)
		},
		"a person waits for a strict one": func(t *testing.T, w *world) {
			s := during(w.service(t, "s", "a"), strict(night))
			s.SyncRequest = "please"
			w.plan(s)
			w.wants(t, "s", report.Pending, closed)
			if err := w.engine.Reconcile("s"); err != nil {
				t.Fatal(err)
			}
			w.wants(t, "s", report.Pending, closed)
			pass(t, 2*time.Hour)
			w.wants(t, "s", report.Healthy, noReason)
		},
		"a sync of what is applied waits for a strict one": func(t *testing.T, w *world) {
			s := w.service(t, "s", "a")
			w.plan(s)
			synctest.Wait()
			s.SpecDigest = "strict"
			s = during(s, strict(night))
			s.SyncRequest = "please"
			w.plan(s)
			w.wants(t, "s", report.Pending, closed)
			if got, _ := w.count(); got != 1 {
				t.Errorf("applied: got %d, want 1", got)
			}
		},
		"a try that failed waits for the next": func(t *testing.T, w *world) {
			w.onApply = func(context.Context, *unstructured.Unstructured) error {
				if time.Now().Day() == 1 {
					return rejected()
				}
				return nil
			}
			w.plan(during(w.service(t, "s", "a"), night))
			pass(t, 2*time.Hour)
			w.wants(t, "s", report.Failed, reason.ApplyRejected)
			pass(t, 2*time.Hour)
			w.wants(t, "s", report.Pending, closed, "2000-01-02 02:00 UTC")
			pass(t, 22*time.Hour)
			w.wants(t, "s", report.Healthy, noReason)
		},
		"a run is not cut off when it closes": func(t *testing.T, w *world) {
			w.onApply = func(ctx context.Context, _ *unstructured.Unstructured) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(2 * time.Minute):
					return nil
				}
			}
			s := during(w.service(t, "s", "a"), syncpolicy.Window{Schedule: "0 2 * * *", Duration: time.Minute})
			w.plan(s)
			pass(t, 2*time.Hour+90*time.Second)
			w.plan(s) // the same again
			pass(t, time.Minute)
			w.wants(t, "s", report.Healthy, noReason)
		},
		"windows that cannot be read": func(t *testing.T, w *world) {
			s := during(w.service(t, "s", "a"), syncpolicy.Window{Schedule: "every now and then", Duration: time.Hour})
			w.plan(s)
			w.wants(t, "s", report.Pending, closed, "window 1", "every now and then")
			s.SyncRequest = "please"
			w.plan(s)
			w.wants(t, "s", report.Healthy, noReason)
		},
		"windows that never open": func(t *testing.T, w *world) {
			w.plan(during(w.service(t, "s", "a"), syncpolicy.Window{Schedule: "0 0 30 2 *", Duration: time.Hour}))
			w.wants(t, "s", report.Pending, closed, "foreseeable future")
		},
		"health is watched anyway": func(t *testing.T, w *world) {
			w.plan(w.service(t, "s", "Pod:a"))
			synctest.Wait()
			w.plan(during(w.service(t, "s", "Pod:b"), night))
			w.wants(t, "s", report.Pending, closed)
			w.heal("s", "Pod", "a", health.Degraded)
			synctest.Wait()
			if got := w.status("s").Counts.Failed; got != 1 {
				t.Errorf("failed objects: got %d, want 1", got)
			}
		},
		"drift is put right meanwhile, but for a strict freeze": func(t *testing.T, w *world) {
			w.plan(during(w.service(t, "s", "a"), syncpolicy.Window{Schedule: "0 0 1 2 *", Duration: time.Hour, Deny: true, Strict: true}))
			w.wants(t, "s", report.Healthy, noReason)
			s := during(w.service(t, "s", "b"), night, syncpolicy.Window{Schedule: "0 1 * * *", Duration: 30 * time.Minute, Deny: true, Strict: true})
			w.plan(s)
			w.wants(t, "s", report.Pending, closed)
			w.lose("s", "a")
			pass(t, time.Second)
			if w.live(configMapKey("a")) == nil {
				t.Error("it is not put right while a change waits")
			}
			pass(t, time.Hour)
			w.lose("s", "a")
			pass(t, 20*time.Minute)
			if w.live(configMapKey("a")) != nil {
				t.Error("it is put right in a strict freeze")
			}
			pass(t, 20*time.Minute)
			if w.live(configMapKey("a")) == nil {
				t.Error("it is not put right after the freeze")
			}
		},
		"a window and a dependency": func(t *testing.T, w *world) {
			w.plan(after(during(w.service(t, "s", "a"), night), "nobody"))
			w.wants(t, "s", report.Pending, closed)
			pass(t, 2*time.Hour)
			w.wants(t, "s", report.Pending, notReady)
			pass(t, time.Hour)
			w.plan(after(during(w.service(t, "s", "a"), night), "nobody"), w.service(t, "nobody", "n"))
			w.wants(t, "s", report.Pending, closed)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, reconcile.Settings{}, test) })
	}
}

// TestWindowWhenClocksArePutForward has a window that begins in the skipped hour.
func TestWindowWhenClocksArePutForward(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2000, time.March, 26, 0, 0, 0, 0, time.UTC)))
		w := newWorld(reconcile.Settings{})
		w.run(t)
		w.plan(during(w.service(t, "s", "a"), syncpolicy.Window{Schedule: "30 2 * * *", Duration: time.Hour, TimeZone: "Europe/Berlin"}))
		w.wants(t, "s", report.Pending, closed, "2000-03-26 01:00 UTC")
		pass(t, time.Hour)
		w.wants(t, "s", report.Healthy, noReason)
	})
}
