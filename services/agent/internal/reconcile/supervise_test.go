// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

// TestStuckRunEndsTheEngine has an apply that never returns and ignores its context.
func TestStuckRunEndsTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{ApplyTimeout: time.Minute})
		forever := make(chan struct{})
		defer close(forever) // or the bubble would never be empty
		w.onApply = func(context.Context, *unstructured.Unstructured) error {
			<-forever
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- w.engine.Run(ctx) }()
		w.plan(w.service(t, "stuck", "a"))

		pass(t, 2*time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("the engine ended after 2 min: %v; want it to wait somewhat longer than the run may take", err)
		default:
		}
		pass(t, 2*time.Minute)
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "service stuck does not end") {
				t.Errorf("got %v, want an error that names the service", err)
			}
		default:
			t.Error("the engine goes on with a run that does not end")
		}
	})
}

// TestWorkersAsTheHubSays counts the services that are worked on at once while the hub's settings
// change.
func TestWorkersAsTheHubSays(t *testing.T) {
	bubble(t, reconcile.Settings{Workers: 2}, func(t *testing.T, w *world) {
		working := make(chan string, 100)
		release := make(chan struct{})
		w.onApply = func(ctx context.Context, o *unstructured.Unstructured) error {
			working <- o.GetName()
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		var services []plan.Service
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			services = append(services, w.service(t, name, name))
		}
		for i, step := range []struct{ workers, want int }{{0, 2}, {4, 4}, {1, 4}} {
			w.engine.SetPlan(plan.Plan{Version: "v", Services: services, Settings: syncpolicy.AgentSettings{Workers: step.workers}})
			pass(t, time.Second)
			if got := len(working); got != step.want {
				t.Errorf("step %d, %d workers: got %d services that were begun, want %d", i, step.workers, got, step.want)
			}
		}
		for len(working) > 0 {
			<-working
		}
		for range 4 { // one by one the others have their turn: 4 are held, and only one may be from now on
			release <- struct{}{}
		}
		pass(t, time.Second)
		if got := len(working); got != 1 {
			t.Errorf("got %d services at work, want 1", got)
		}
		release <- struct{}{}
		pass(t, time.Second)
		if got := len(working); got != 2 {
			t.Errorf("got %d services that had their turn, want 2", got)
		}
		close(release)
	})
}

// TestRefreshAsTheHubSays changes how often services are examined.
func TestRefreshAsTheHubSays(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: 10 * time.Hour}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		w.plan(s)
		pass(t, time.Hour)
		before := len(w.spans.Ended())
		w.engine.SetPlan(plan.Plan{Version: "v", Services: []plan.Service{s}, Settings: syncpolicy.AgentSettings{RefreshInterval: time.Minute}})
		pass(t, 30*time.Minute)
		if got := len(w.spans.Ended()) - before; got < 20 {
			t.Errorf("got %d looks in half an hour, want one a minute", got)
		}
	})
}
