// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// follow applies a service of the given objects, and clears the list of applies.
func (w *world) follow(t *testing.T, mode syncpolicy.DriftMode, objects ...string) plan.Service {
	t.Helper()
	files := map[string]string{}
	for _, name := range objects {
		files[name+".yaml"] = manifest(name, "1")
	}
	s := plan.Service{
		Name: "s", UID: "uid-s", SpecDigest: "spec", Spec: plan.Spec{Prune: new(true), Policy: syncpolicy.Policy{Drift: mode}},
		Bundles: []plan.Bundle{{Digest: w.pack(t, files), Commit: "c1"}},
	}
	w.plan(s)
	pass(t, time.Second)
	assertPhase(t, w, "s", report.Healthy)
	w.assertApplied(t, objects...)
	return s
}

// assertApplied compares the applies since its last call.
func (w *world) assertApplied(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, name := range w.applied {
		got = append(got, name[len("ConfigMap/"):])
	}
	w.applied = nil
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("applied: got %v, want %v", got, want)
	}
}

// TestDriftCorrection has others change one of three objects in many ways.
func TestDriftCorrection(t *testing.T) {
	t.Parallel()
	b := []string{"b"}
	for name, test := range map[string]struct {
		change func(t *testing.T, w *world) observe.Observation
		want   []string
	}{
		"data": {func(t *testing.T, w *world) observe.Observation { return w.edit(t, "b", setData("2")) }, b},
		"field of nobody": {func(t *testing.T, w *world) observe.Observation {
			return w.edit(t, "b", func(o *unstructured.Unstructured) { o.Object["immutable"] = false })
		}, nil},
		"status": {func(t *testing.T, w *world) observe.Observation {
			return w.edit(t, "b", func(o *unstructured.Unstructured) { o.Object["status"] = "x" })
		}, nil},
		"nothing": {func(t *testing.T, w *world) observe.Observation {
			return w.edit(t, "b", func(*unstructured.Unstructured) {})
		}, nil},
		"ownership wiped": {func(t *testing.T, w *world) observe.Observation {
			return w.edit(t, "b", func(o *unstructured.Unstructured) { o.SetManagedFields(nil) })
		}, b},
		"deleted": {func(_ *testing.T, w *world) observe.Observation { return w.erase("b") }, b},
		"label taken away": {func(t *testing.T, w *world) observe.Observation {
			seen := w.edit(t, "b", func(o *unstructured.Unstructured) { o.SetLabels(nil) })
			return observe.Observation{Service: "s", Object: seen.Object, ResourceVersion: seen.ResourceVersion, Deleted: true}
		}, b},
		"replaced": {func(t *testing.T, w *world) observe.Observation { return w.edit(t, "b", setUID("another")) }, b},
		"deletion of an earlier one": {func(t *testing.T, w *world) observe.Observation {
			seen := w.edit(t, "b", setUID("earlier"))
			return observe.Observation{Service: "s", Object: seen.Object, ResourceVersion: seen.ResourceVersion, Deleted: true}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				w.follow(t, syncpolicy.DriftCorrect, "a", "b", "c")
				reads, saves := w.reads, w.saves
				w.engine.Observe(test.change(t, w))
				pass(t, 500*time.Millisecond)
				w.assertApplied(t, test.want...)
				assertPhase(t, w, "s", report.Healthy)
				if w.reads != reads || len(test.want) == 0 && w.saves != saves {
					t.Errorf("got %d reads and %d changes of the inventory, want none", w.reads-reads, w.saves-saves)
				}
				pass(t, 10*time.Hour)
				w.assertApplied(t)
			})
		})
	}
}

// TestDriftModes changes one object and deletes another, in each mode.
func TestDriftModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[syncpolicy.DriftMode][]string{
		syncpolicy.DriftCorrect: {"b", "c"}, syncpolicy.DriftOff: nil, syncpolicy.DriftReport: nil,
	} {
		t.Run(string(mode)+"-mode", func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				s := w.follow(t, mode, "a", "b", "c")
				w.engine.Observe(w.edit(t, "b", setData("2")))
				w.engine.Observe(w.erase("c"))
				pass(t, 5*time.Hour)
				w.assertApplied(t, want...)
				if err := w.engine.Reconcile("s"); err != nil { // a sync corrects in any mode
					t.Fatal(err)
				}
				pass(t, time.Second)
				w.assertApplied(t, []string{"b", "c"}[len(want):]...)
				w.engine.Observe(w.edit(t, "a", setData("2")))
				pass(t, time.Second)
				w.assertApplied(t, []string{"a"}[:min(1, len(want))]...)
				s.SyncRequest = "again"
				w.plan(s)
				pass(t, time.Second)
				w.assertApplied(t, []string{"a"}[min(1, len(want)):]...)
				assertPhase(t, w, "s", report.Healthy)
			})
		})
	}
}

// TestChangedManifest changes one of three manifests: the others are not applied.
func TestChangedManifest(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.follow(t, syncpolicy.DriftCorrect, "a", "b", "c")
		s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": manifest("a", "1"), "b.yaml": manifest("b", "2"), "c.yaml": manifest("c", "1")})
		w.plan(s)
		pass(t, time.Second)
		w.assertApplied(t, "b")
		s.SpecDigest, s.Spec.Policy.Conflicts = "other", []syncpolicy.ConflictRule{{Manager: "x", Action: syncpolicy.ConflictForce}}
		w.plan(s)
		pass(t, time.Second)
		w.assertApplied(t, "a", "b", "c") // other rules, other outcome
		s.SpecDigest, s.Spec.Policy.Ignore = "another", []syncpolicy.IgnoreRule{{Pointers: []string{"/data"}}}
		w.plan(s)
		pass(t, time.Second)
		w.assertApplied(t) // an object to leave alone is as it was applied
	})
}

// TestTerminating has an object that a client deletes and whose finalizer is stuck, while its
// manifest changes.
func TestTerminating(t *testing.T) {
	t.Parallel()
	for _, mode := range []syncpolicy.DriftMode{syncpolicy.DriftCorrect, syncpolicy.DriftOff} {
		t.Run(string(mode)+"-mode", func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				s := w.follow(t, mode, "a", "b")
				w.engine.Observe(w.edit(t, "b", func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()}) }))
				pass(t, 5*time.Hour)
				w.assertApplied(t)
				s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": manifest("a", "1"), "b.yaml": manifest("b", "2")})
				w.plan(s)
				pass(t, 5*time.Hour)
				w.assertApplied(t)
				w.engine.Observe(w.erase("b"))
				pass(t, time.Second)
				w.assertApplied(t, "b")
			})
		})
	}
}

// TestContest has a client that changes an object again as soon as it is corrected.
func TestContest(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.follow(t, syncpolicy.DriftCorrect, "a", "b")
		fight := func(d time.Duration) (corrections int) {
			for end := time.Now().Add(d); time.Now().Before(end); pass(t, 100*time.Millisecond) {
				w.mu.Lock()
				corrected := w.objects[keyOf("b")].Object["data"].(map[string]any)["value"] == "1"
				w.mu.Unlock()
				if corrected {
					corrections++
					w.engine.Observe(w.edit(t, "b", setData("theirs")))
				}
			}
			return corrections - 1
		}
		if got := fight(time.Hour); got < 15 || got > 30 {
			t.Errorf("corrections in an hour: got %d, want a few at once, and then fewer and fewer, down to one in five minutes", got)
		}
		w.assertDrifted(t, "b: data.value 1 -> theirs by leat")
		if got := w.status("s"); got.Phase != report.Healthy || got.Problem == nil || got.Problem.Reason != reason.DriftDetected {
			t.Errorf("got %s, %+v, want it to be healthy, with DRIFT_DETECTED", got.Phase, got.Problem)
		}
		w.applied = nil
		w.engine.Observe(w.edit(t, "a", setData("2")))
		pass(t, 500*time.Millisecond)
		w.assertApplied(t, "a") // the quarrel is about b alone
		pass(t, time.Hour)
		w.assertDrifted(t)
		if got := w.status("s").Problem; got != nil {
			t.Errorf("an hour later: got %+v, want it to be forgotten", got)
		}
		w.engine.Observe(w.edit(t, "b", setData("2")))
		pass(t, 500*time.Millisecond)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Contains(w.applied, "ConfigMap/b") {
			t.Error("b was not corrected at once, want the quarrel to be forgotten")
		}
	})
}

// TestDriftOfFailingService shows that drift does not shorten the pauses between attempts.
func TestDriftOfFailingService(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.follow(t, syncpolicy.DriftCorrect, "a", "b")
		good := s.Bundles
		s.Bundles = []plan.Bundle{{Digest: w.pack(t, map[string]string{"a.yaml": "kind: ["})}}
		w.plan(s)
		pass(t, time.Second)
		tries := len(w.bases)
		for range 10 {
			w.engine.Observe(w.edit(t, "a", setData("2")))
			pass(t, time.Minute)
		}
		if got := len(w.bases) - tries; got != 0 {
			t.Errorf("tries within the pause: got %d, want none", got)
		}
		w.assertApplied(t)
		s.Bundles = good
		w.plan(s)
		pass(t, time.Second)
		w.assertApplied(t, "a")
	})
}

// TestUnansweredApply has an apply whose answer is lost, and then the previous plan again. The
// engine must not take the result of the apply for the previous state.
func TestUnansweredApply(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		first := w.follow(t, syncpolicy.DriftOff, "a")
		second := first
		second.Bundles = []plan.Bundle{{Digest: w.pack(t, map[string]string{"a.yaml": manifest("a", "2")})}}
		w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
			w.edit(t, "a", setData("2"))
			return errors.New("connection lost")
		}
		w.plan(second)
		pass(t, time.Millisecond)
		w.onApply = nil
		w.plan(first)
		pass(t, time.Second)
		w.assertApplied(t, "a")
	})
}

// TestRestart ends the process, and starts the next one with its stored state, or with less.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, w *world)
		want      []string
	}{
		"nothing happened": {func(*testing.T, *world) {}, nil},
		"state lost":       {func(_ *testing.T, w *world) { clear(w.prints) }, []string{"a", "b"}},
		"state damaged":    {func(_ *testing.T, w *world) { w.prints["s"][40] ^= 1 }, []string{"a", "b"}},
		"one changed":      {func(t *testing.T, w *world) { w.edit(t, "b", setData("2")) }, []string{"b"}},
		"one deleted":      {func(_ *testing.T, w *world) { w.erase("b") }, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(reconcile.Settings{})
				stop := w.runUntil(t)
				s := w.follow(t, syncpolicy.DriftCorrect, "a", "b")
				stop()
				test.meanwhile(t, w)
				reads, saves := w.reads, w.saves
				w.engine = w.newEngine()
				w.run(t)
				w.plan(s)
				synctest.Wait()
				for _, o := range w.objects {
					w.engine.Observe(sight(o))
				}
				w.engine.Synced(keyOf("a").GroupKind(), observe.Scope{})
				pass(t, time.Second)
				w.assertApplied(t, test.want...)
				assertPhase(t, w, "s", report.Healthy)
				pass(t, 5*time.Hour)
				w.assertApplied(t)
				if w.reads != reads || w.saves != saves && name != "one deleted" {
					t.Errorf("got %d reads and %d changes of the inventory, want none", w.reads-reads, w.saves-saves)
				}
			})
		})
	}
}

// TestEagerWatches restarts an agent of many services, whose watches list everything before it has
// started all of its services.
func TestEagerWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		stop := w.runUntil(t)
		var services []plan.Service
		for i := range 5 {
			name := fmt.Sprint("s", i)
			services = append(services, w.service(t, name, name))
		}
		w.plan(services...)
		pass(t, time.Second)
		stop()
		w.applied = nil
		w.engine = w.newEngine()
		var listed atomic.Bool
		w.onWatch = func(collections []observe.Collection) {
			if listed.Swap(true) {
				return
			}
			go func() {
				w.mu.Lock()
				objects := slices.Collect(maps.Values(w.objects))
				w.mu.Unlock()
				for _, o := range objects {
					w.engine.Observe(sight(o))
				}
				<-time.After(5 * time.Millisecond / 2) // half of the services are read meanwhile
				for _, one := range collections {
					w.engine.Synced(one.Kind.GroupKind(), one.Scope)
				}
			}()
		}
		w.loadDelay = time.Millisecond
		w.run(t)
		w.plan(services...)
		pass(t, time.Hour)
		w.assertApplied(t)
		for _, s := range services {
			assertPhase(t, w, s.Name, report.Healthy)
		}
	})
}

// TestEventsLateAndOutOfOrder delays and reorders observations, while manifests change, and others
// change objects, too. Leat's own writes never count as drift, and in the end the cluster has the
// desired state.
func TestEventsLateAndOutOfOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				random := &dice{random: rand.New(rand.NewPCG(seed, 0))}
				later := func(o observe.Observation, most time.Duration) {
					go func(delay time.Duration) {
						<-time.After(delay)
						w.engine.Observe(o)
					}(random.upTo(most))
				}
				delay := func() {
					<-time.After(random.upTo(150 * time.Millisecond))
				}
				w.onAnswer = delay
				w.onApply = func(context.Context, *unstructured.Unstructured) error {
					delay()
					return nil
				}
				w.watcher = func(o observe.Observation) { later(o, 300*time.Millisecond) }
				s := w.follow(t, syncpolicy.DriftCorrect, "a", "b", "c")
				edits, changes := 0, 0
				for round := range 20 {
					files := map[string]string{}
					for _, name := range []string{"a", "b", "c"} {
						files[name+".yaml"] = manifest(name, fmt.Sprint(round))
					}
					s.Bundles = []plan.Bundle{{Digest: w.pack(t, files)}}
					w.plan(s)
					changes += 3
					pass(t, random.upTo(200*time.Millisecond))
					if seed%2 == 1 && random.upTo(3) == 0 {
						edits++
						o := w.edit(t, "b", setData("theirs"))
						later(o, 300*time.Millisecond)
					}
				}
				pass(t, time.Hour)
				for _, name := range []string{"a", "b", "c"} {
					if got := w.objects[keyOf(name)].Object["data"].(map[string]any)["value"]; got != "19" {
						t.Errorf("%s: got %v, want 19", name, got)
					}
				}
				if got := len(w.applied); got > changes+edits {
					t.Errorf("applies: got %d, want at most %d for %d changes and %d edits", got, changes+edits, changes, edits)
				}
				assertPhase(t, w, "s", report.Healthy)
			})
		})
	}
}

// dice are random numbers for many goroutines.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (d *dice) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.random.Int64N(int64(most)))
}

// TestLookAtUnchanged counts the cost of examining an unchanged service: the bundle is read, and
// rendered only if that can change the result.
func TestLookAtUnchanged(t *testing.T) {
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		s := w.follow(t, syncpolicy.DriftOff, "a", "b")
		s.ConfigDigest = "config"
		w.plan(s)
		pass(t, time.Second)
		opened, configured := w.rendered()
		pass(t, 5*time.Hour)
		if o, c := w.rendered(); o-opened < 3 || c != configured {
			t.Errorf("got %d bundles opened and %d configurations asked for, want several and none", o-opened, c-configured)
		}
		w.assertApplied(t)

		// An unreadable bundle is reported, and a whole run corrects differences.
		w.mu.Lock()
		content := w.bundles[s.Bundles[0].Digest]
		delete(w.bundles, s.Bundles[0].Digest)
		w.mu.Unlock()
		pass(t, 2*time.Hour)
		assertPhase(t, w, "s", report.Failed)
		w.mu.Lock()
		w.bundles[s.Bundles[0].Digest] = content
		w.mu.Unlock()
		pass(t, 10*time.Minute)
		assertPhase(t, w, "s", report.Healthy)
		w.assertApplied(t)
	})
}
