// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// awaySince has a hub give no bundles, for so long, to so many services of which none was applied.
func awaySince(t *testing.T, w *world, services int, d time.Duration) {
	t.Helper()
	w.setAway(true)
	var all []plan.Service
	for i := range services {
		all = append(all, w.service(t, serviceName(i), fmt.Sprint("o", i)))
	}
	w.plan(all...)
	pass(t, d)
	for i := range services {
		if got := w.status(serviceName(i)); got.Phase != report.Failed || got.Problem.Reason != reason.BundleUnavailable {
			t.Fatalf("%s: got %s, %+v, want BUNDLE_UNAVAILABLE", serviceName(i), got.Phase, got.Problem)
		}
	}
}

func serviceName(i int) string { return fmt.Sprint("s", i) }

func (w *world) setAway(isAway bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hubIsAway = isAway
}

// asked returns how often bundles were asked for.
func (w *world) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bases)
}

// wantAll expects that all those services are healthy.
func wantAll(t *testing.T, w *world, services int) {
	t.Helper()
	for i := range services {
		assertPhase(t, w, serviceName(i), report.Healthy)
	}
}

// TestHubThatComesBackIsNoticedSoon has a hub away for as long as the pauses of other failures need to grow to minutes.
func TestHubThatComesBackIsNoticedSoon(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		awaySince(t, w, 1, time.Hour)
		w.setAway(false)
		pass(t, 31*time.Second)
		wantAll(t, w, 1)
	})
}

// TestFirstServiceThatSucceedsEndsThePausesOfOthers has many services wait for a hub that comes back. Each has a pause of
// minutes, the first to try a short one.
func TestFirstServiceThatSucceedsEndsThePausesOfOthers(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		const services = 30
		awaySince(t, w, services, time.Hour)
		before := w.asked()
		w.setAway(false)
		for waited := time.Duration(0); w.asked() == before; waited += time.Second {
			if waited > 5*time.Minute { // once in 10^10 runs
				t.Fatalf("none of %d services tried again in %s, want one within seconds", services, waited)
			}
			pass(t, time.Second)
		}
		wantAll(t, w, services)
	})
}

// TestServicesShareThePaceOfTheHub counts what agents ask of a hub that gives nothing: it is the same for one service as
// for thirty, or a fleet of agents with many services each would keep the hub down.
func TestServicesShareThePaceOfTheHub(t *testing.T) {
	t.Parallel()
	for _, services := range []int{1, 30} {
		t.Run(fmt.Sprint(services), func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				awaySince(t, w, services, time.Hour) // until pauses have grown
				before := w.asked()
				pass(t, 2*time.Hour)
				// A pause is 15 s on average, so there are 480; a hundred fewer or more are eight standard deviations.
				if got := w.asked() - before; got < 380 || got > 580 {
					t.Errorf("%d services asked %d times in two hours, want about 480", services, got)
				}
			})
		})
	}
}

// TestServiceWhoseCompanionsLeave has many services wait, of which all but one leave the plan. None of them succeeds, so
// nothing ends the pause that the last one has because of them.
func TestServiceWhoseCompanionsLeave(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		awaySince(t, w, 400, 8*time.Hour) // their pauses would be 100 minutes, on average
		w.plan(w.service(t, serviceName(0), "o0"))
		pass(t, time.Second)
		w.setAway(false)
		pass(t, 31*time.Minute)
		wantAll(t, w, 1)
	})
}

// TestStreamThatBeginsEndsThePauses has a plan's stream begin once the hub is back, and breaks the next ones off.
func TestStreamThatBeginsEndsThePauses(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		const services = 30
		awaySince(t, w, services, time.Hour)
		before := w.asked()
		for range 9 { // while the hub is away
			w.engine.HubAnswers()
			pass(t, time.Second)
		}
		if got := w.asked() - before; got < services || got > services+services/2 {
			t.Errorf("nine streams in as many seconds had %d bundles asked for, want one try of each of %d services, and what was due", got, services)
		}
		pass(t, 20*time.Second)
		w.setAway(false)
		w.engine.HubAnswers()
		pass(t, time.Second)
		wantAll(t, w, services)
	})
}

// TestRefusalsOfTheClusterKeepTheirPauses has an API server refuse an object: neither the hub's pace nor its answers count.
func TestRefusalsOfTheClusterKeepTheirPauses(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		var tries atomic.Int64
		w.onApply = func(context.Context, *unstructured.Unstructured) error {
			tries.Add(1)
			return reason.Errorf(reason.ApplyRejected, "no")
		}
		w.plan(w.service(t, "s", "a"))
		pass(t, time.Hour)
		before := tries.Load()
		for range 60 {
			w.engine.HubAnswers()
			pass(t, time.Minute)
		}
		if got := tries.Load() - before; got > 60 { // 24 on average
			t.Errorf("tried %d times in an hour, want pauses of up to five minutes", got)
		}
	})
}
