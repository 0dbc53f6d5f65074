// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func rejected() error {
	return &reason.Problem{Reason: reason.ApplyRejected, Message: "no"}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, settings reconcile.Settings, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(settings)
		w.run(t)
		test(t, w)
	})
}

// pass lets virtual time pass until all goroutines are idle.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	takes(d)
	synctest.Wait()
}

// takes lets virtual time pass for one goroutine.
func takes(d time.Duration) { time.Sleep(d) }

func assertPhase(t *testing.T, w *world, service string, want report.Phase) {
	t.Helper()
	if got := w.status(service); got.Phase != want {
		t.Errorf("service %s: got %s, problem %v, want %s", service, got.Phase, got.Problem, want)
	}
}

func TestWorkersAreBounded(t *testing.T) {
	bubble(t, reconcile.Settings{Workers: 3}, func(t *testing.T, w *world) {
		var running, most atomic.Int32
		w.onApply = func(ctx context.Context, _ *unstructured.Unstructured) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-time.After(time.Second)
			return ctx.Err()
		}
		var services []plan.Service
		for i := range 12 {
			name := fmt.Sprintf("s%d", i)
			services = append(services, w.service(t, name, name))
		}
		w.plan(services...)
		pass(t, 4*time.Second+time.Millisecond)
		if got := most.Load(); got != 3 {
			t.Errorf("services at once: got %d, want 3", got)
		}
		for _, s := range services {
			assertPhase(t, w, s.Name, report.Healthy)
		}
	})
}

// TestFailureDelaysNobody has one slot, and a service that fails continuously.
func TestFailureDelaysNobody(t *testing.T) {
	bubble(t, reconcile.Settings{Workers: 1}, func(t *testing.T, w *world) {
		var tries atomic.Int32
		w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
			if o.GetName() == "bad" && tries.Add(1) < 6 {
				return rejected()
			}
			return nil
		}
		w.plan(w.service(t, "bad", "bad", "good-part"), w.service(t, "good", "good"))
		pass(t, time.Millisecond)
		assertPhase(t, w, "good", report.Healthy)
		assertPhase(t, w, "bad", report.Failed)
		got := w.status("bad")
		if got.Counts.Failed != 1 || got.Counts.Healthy != 1 || len(got.Objects) != 1 || got.Problem.Reason != reason.ApplyRejected {
			t.Errorf("got %+v, want one failed object, listed", got)
		}
		pass(t, time.Hour) // more than the back-off of five failures
		assertPhase(t, w, "bad", report.Healthy)
		if got := tries.Load(); got != 6 {
			t.Errorf("tries: got %d, want 6", got)
		}
		if got := w.phases["bad"]; !slices.Equal(got[len(got)-2:], []report.Phase{report.Failed, report.Healthy}) {
			t.Errorf("phases: got %v, want no flapping between tries", got)
		}
	})
}

func TestNewerPlanCancelsStaleRun(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.onApply = func(ctx context.Context, o *unstructured.Unstructured) error {
			if o.GetName() != "slow" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		w.plan(w.service(t, "s", "slow"))
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Syncing)
		w.plan(w.service(t, "s", "quick"))
		pass(t, time.Millisecond)
		assertPhase(t, w, "s", report.Healthy)
		if got := w.phases["s"]; slices.Contains(got, report.Failed) {
			t.Errorf("phases: got %v, want no failure: the old run was only superseded", got)
		}
	})
}

// TestBackToWhatWasThere returns to the previous plan during a change, and during a removal.
func TestBackToWhatWasThere(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		var block atomic.Bool
		w.onApply = func(ctx context.Context, o *unstructured.Unstructured) error {
			if o.GetName() == "b" && block.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		first, second := w.service(t, "s", "a", "b"), w.service(t, "s", "a", "b", "c")
		second.Bundles[0].Digest = w.pack(t, map[string]string{"c.yaml": manifest("c", ""), "a.yaml": manifest("a", "2"), "b.yaml": manifest("b", "2")})
		w.plan(first)
		pass(t, time.Second)
		block.Store(true)
		w.plan(second)
		pass(t, time.Second)
		before, _ := w.count()
		block.Store(false)
		w.plan(first)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
		if after, _ := w.count(); after < before+2 {
			t.Errorf("applies after going back: got %d, want all", after-before)
		}
		if got := len(w.objects); got != 2 {
			t.Errorf("objects: got %d, want 2: what the broken change brought is pruned", got)
		}

		w.onDelete = func(ctx context.Context, o inventory.Object) error {
			if o.Name == "b" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		w.plan()
		pass(t, time.Second)
		if _, deleted := w.count(); deleted == 0 {
			t.Fatal("nothing was deleted, want the removal to be under way")
		}
		w.plan(first)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
		if got := len(w.objects); got != 2 {
			t.Errorf("objects: got %d, want 2", got)
		}
	})
}

// TestLastAppliedIsTheBase changes the content of a service, with a state in between that cannot be
// rendered, and adds a source.
func TestLastAppliedIsTheBase(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		first := s.Bundles[0].Digest
		w.plan(s)
		pass(t, time.Second)
		s.Bundles = []plan.Bundle{{Digest: w.pack(t, map[string]string{"a.yaml": "kind: ["})}}
		w.plan(s)
		pass(t, time.Second)
		next := w.service(t, "s", "a", "b").Bundles[0]
		s.Bundles = []plan.Bundle{next, {Digest: w.service(t, "s", "c").Bundles[0].Digest}}
		w.plan(s)
		pass(t, time.Second)
		var none digest.Digest
		if want := []digest.Digest{none, first, first, none}; !slices.Equal(w.bases, want) {
			t.Errorf("bases: got %v, want %v", w.bases, want)
		}
	})
}

func TestUnchangedCostsNothing(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a", "b")
		w.plan(s)
		pass(t, time.Second)
		before, _ := w.count()
		for range 50 {
			w.plan(s)
			pass(t, time.Minute)
		}
		if after, _ := w.count(); after != before {
			t.Errorf("applies of an unchanged service: got %d, want 0", after-before)
		}
		// A commit that changes no content is reported and not applied.
		s.Bundles = []plan.Bundle{{Digest: s.Bundles[0].Digest, Commit: "c2"}}
		w.plan(s)
		pass(t, time.Second)
		if got := w.status("s").Applied.Commits; !slices.Equal(got, []string{"c2"}) {
			t.Errorf("commits: got %v, want c2", got)
		}
		pass(t, 3*time.Hour) // the next refresh records the commit
		saved := w.saves
		pass(t, 5*time.Hour)
		if after, _ := w.count(); after != before || w.saves != saved {
			t.Errorf("after the refreshes: got %d applies and %d changes of the inventory, want none", after-before, w.saves-saved)
		}
		if slices.Contains(w.phases["s"][2:], report.Syncing) {
			t.Errorf("phases: got %v, want a refresh not to be shown as a change", w.phases["s"])
		}
	})
}

func TestInvalidManifestWaitsForContent(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": "kind: ["})
		w.plan(s)
		pass(t, time.Hour)
		assertPhase(t, w, "s", report.Failed)
		if got := w.phases["s"]; len(got) != 3 { // pending, syncing, failed
			t.Errorf("phases: got %v, want one try", got)
		}
		w.plan(w.service(t, "s", "a"))
		pass(t, time.Millisecond)
		assertPhase(t, w, "s", report.Healthy)
	})
}

func TestMissingBundleIsTriedAgain(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		content := w.bundles[s.Bundles[0].Digest]
		delete(w.bundles, s.Bundles[0].Digest)
		w.plan(s)
		pass(t, time.Second)
		if got := w.status("s"); got.Phase != report.Failed || got.Problem.Reason != reason.BundleUnavailable {
			t.Errorf("got %s, %+v, want BUNDLE_UNAVAILABLE", got.Phase, got.Problem)
		}
		w.mu.Lock()
		w.bundles[s.Bundles[0].Digest] = content
		w.mu.Unlock()
		pass(t, 10*time.Minute)
		assertPhase(t, w, "s", report.Healthy)
	})
}

func TestHealthTimeout(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.writes = 50
		w.plan(w.service(t, "s", "a"))
		pass(t, time.Second)
		see := func(version string, verdict health.Verdict) {
			object, _ := w.records["s"].Objects.Get(inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "a"})
			w.engine.Observe(observe.Observation{Service: "s", Object: object, ResourceVersion: version, Health: verdict})
			synctest.Wait()
		}
		see("7", health.Verdict{State: health.Degraded}) // older than the apply
		assertPhase(t, w, "s", report.Healthy)
		see("100", health.Verdict{State: health.Progressing, Message: "1 of 2 there"})
		assertPhase(t, w, "s", report.Progressing)
		pass(t, 9*time.Minute)
		assertPhase(t, w, "s", report.Progressing)
		pass(t, 2*time.Minute)
		got := w.status("s")
		want := &reason.Problem{Reason: reason.HealthTimeout, Message: "not healthy within 10m0s: ConfigMap default/a: 1 of 2 there"}
		if diff := cmp.Diff(want, got.Problem); got.Phase != report.Degraded || diff != "" {
			t.Errorf("got %s, problem (-want +got):\n%s", got.Phase, diff)
		}
		see("101", health.Verdict{State: health.Healthy})
		assertPhase(t, w, "s", report.Healthy)
		see("102", health.Verdict{State: health.Degraded, Message: "gave up"})
		assertPhase(t, w, "s", report.Degraded)
	})
}

// TestDeletionsThatDidNotBeginDoNotCount has runs end before their first deletion, because the count of it is not
// stored. Then nothing was deleted, and the guard must not object to a later change for it.
func TestDeletionsThatDidNotBeginDoNotCount(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		names := strings.Split("abcdefghij", "")
		without := func(gone ...string) plan.Service {
			return w.service(t, "s", slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(gone, name) })...)
		}
		w.plan(without())
		pass(t, time.Second)
		refuses := true
		w.onSave = func(r inventory.Record) error {
			if refuses && r.Pruned > 0 {
				return errors.New("no room")
			}
			return nil
		}
		for _, gone := range [][]string{{"a", "b"}, {"c", "d"}, {"e", "f"}} {
			w.plan(without(gone...))
			pass(t, time.Minute)
			if got := w.status("s"); got.Problem == nil || got.Problem.Reason == reason.PruneGuarded {
				t.Fatalf("without %v: got %s, %+v, want the run to fail at the inventory", gone, got.Phase, got.Problem)
			}
		}
		if _, deleted := w.count(); deleted != 0 {
			t.Fatalf("deleted: got %d objects, want none before their count is stored", deleted)
		}
		w.mu.Lock()
		refuses = false
		w.mu.Unlock()
		pass(t, time.Hour)
		if _, deleted := w.count(); deleted != 2 {
			t.Errorf("deleted: got %d objects, %+v, want two", deleted, w.status("s").Problem)
		}
		assertPhase(t, w, "s", report.Healthy)
	})
}

func TestManyVanishedServicesAreKept(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		var services []plan.Service
		for i := range 10 {
			name := fmt.Sprintf("s%d", i)
			services = append(services, w.service(t, name, name))
		}
		w.plan(services...)
		pass(t, time.Second)

		w.plan() // a hub that lost its data
		pass(t, 3*time.Hour)
		if _, deleted := w.count(); deleted != 0 {
			t.Fatalf("deleted: got %d objects, want none", deleted)
		}
		if got := w.status("s3"); got.Phase != report.Failed || got.Problem.Reason != reason.PruneGuarded {
			t.Errorf("got %s, %+v, want PRUNE_GUARDED", got.Phase, got.Problem)
		}
		if err := w.engine.Reconcile("s3"); err != nil { // a person agrees
			t.Fatal(err)
		}
		pass(t, time.Second)
		if _, deleted := w.count(); deleted != 1 {
			t.Errorf("deleted: got %d objects, want that of the confirmed service", deleted)
		}
		if err := w.engine.Reconcile("s3"); err == nil {
			t.Error("a removed service is still known")
		}
		w.mark("s2") // another person agrees, who reaches the cluster alone
		pass(t, time.Minute)
		if _, deleted := w.count(); deleted != 2 {
			t.Errorf("deleted: got %d objects, want that of the marked service, too", deleted)
		}
		w.plan(services[4:]...) // the hub is back, without four
		pass(t, time.Second)
		assertPhase(t, w, "s5", report.Healthy)
		if _, deleted := w.count(); deleted != 4 {
			t.Errorf("deleted: got %d objects, want 4: two more services left, which is below the guard", deleted)
		}
	})
}

// TestForeignInventory has inventories of another hub's agent.
func TestForeignInventory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		for _, name := range []string{"named", "theirs"} {
			object := inventory.Object{Ref: inventory.Ref{Key: inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: name}}, UID: "u"}
			w.records[name] = inventory.Record{Service: name, Owner: "other", Prune: true, Objects: inventory.NewSet(object)}
		}
		w.run(t)
		w.plan(w.service(t, "named", "named"))
		pass(t, time.Second)
		assertPhase(t, w, "named", report.Healthy)
		w.plan()
		pass(t, time.Second)
		if _, mine := w.records["named"]; mine || !slices.Equal(w.deleted, []string{"named"}) {
			t.Errorf("deleted: got %v, want what the plan had named", w.deleted)
		}
		if _, left := w.records["theirs"]; !left || w.status("theirs").Phase != 0 {
			t.Errorf("theirs: got record %v, phase %s, want it left alone", left, w.status("theirs").Phase)
		}
	})
}

func TestServiceComesBackWhileLeaving(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		for range 20 {
			w.plan(s)
			synctest.Wait()
			w.plan()
			w.plan(s)
			synctest.Wait()
			assertPhase(t, w, "s", report.Healthy)
			w.plan()
			synctest.Wait()
			if len(w.objects) != 0 || len(w.kinds) != 0 {
				t.Fatalf("got %d objects and watches of %v, want none", len(w.objects), w.kinds)
			}
		}
	})
}

// TestWaves shows the order of kinds, and that a failed wave is the last.
func TestWaves(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
			if o.GetName() == "refused" {
				return rejected()
			}
			return nil
		}
		w.plan(w.service(t, "s", "a", "Namespace:ns"), w.service(t, "t", "never", "Namespace:refused", "Namespace:fine"))
		pass(t, time.Second)
		if a, n := slices.Index(w.applied, "ConfigMap/a"), slices.Index(w.applied, "Namespace/ns"); n < 0 || a < n {
			t.Errorf("applied: got %v, want the namespace before its content", w.applied)
		}
		if !slices.Contains(w.applied, "Namespace/fine") || slices.Contains(w.applied, "ConfigMap/never") {
			t.Errorf("applied: got %v, want the rest of the failed wave and nothing of the next", w.applied)
		}
	})
}

// TestReplacedObject shows that an object which another client created under the same name
// survives.
func TestReplacedObject(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.plan(w.service(t, "s", "a", "b", "c"))
		pass(t, time.Second)
		w.mu.Lock()
		for name, labels := range map[string]map[string]string{"a": nil, "b": {k8s.ServiceLabel: "s"}} {
			o := w.objects[inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: name}]
			o.SetUID("other")
			o.SetLabels(labels)
		}
		w.mu.Unlock()
		w.plan(w.service(t, "s", "c"))
		pass(t, time.Second)
		if !slices.Equal(w.deleted, []string{"b"}) {
			t.Errorf("deleted: got %v, want only b, which carries the service's label", w.deleted)
		}
	})
}

func TestTwiceInOneService(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		s.Bundles = append(s.Bundles, s.Bundles[0])
		w.plan(s)
		pass(t, time.Second)
		if got := w.status("s").Problem; got == nil || got.Reason != reason.ManifestInvalid {
			t.Errorf("problem: got %+v, want MANIFEST_INVALID", got)
		}
	})
}

func TestSlowSubscriberIsCutOff(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		slow, stop := w.engine.Subscribe("")
		defer stop()
		other, stopOther := w.engine.Subscribe("nobody")
		defer stopOther()
		for i := range 300 {
			w.plan(w.service(t, "s", fmt.Sprint("a", i)))
			synctest.Wait()
		}
		count := 0
		for range slow {
			count++
		}
		if count != 256 {
			t.Errorf("events: got %d before the end, want 256", count)
		}
		select {
		case event, ok := <-other:
			t.Errorf("got %+v, %v, want no event of another service", event, ok)
		default:
		}
	})
}
