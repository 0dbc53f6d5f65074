// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// assertOwners compares the owner of each ConfigMap: the label in the cluster, and the one stored
// inventory that lists it.
func assertOwners(t *testing.T, w *world, want map[string]string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got, stored := map[string]string{}, map[string]string{}
	for key, o := range w.objects {
		got[key.Name] = o.GetLabels()[k8s.ServiceLabel]
	}
	for service, record := range w.records {
		for _, o := range record.Objects.Objects() {
			stored[o.Name] += service
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(stored) != fmt.Sprint(want) {
		t.Errorf("got labels %v, inventories %v, want %v in both", got, stored, want)
	}
}

func assertNothingDeleted(t *testing.T, w *world) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.deleted) > 0 {
		t.Errorf("deleted: got %v, want nothing", w.deleted)
	}
}

// TestHandOver moves objects between services in one plan, under many interleavings.
func TestHandOver(t *testing.T) {
	for name, test := range map[string]struct {
		before, after map[string][]string
		want          map[string]string
	}{
		"renamed": {
			map[string][]string{"old": {"a", "b", "c", "d", "e", "f"}},
			map[string][]string{"new": {"a", "b", "c", "d", "e", "f"}},
			map[string]string{"a": "new", "b": "new", "c": "new", "d": "new", "e": "new", "f": "new"},
		},
		"swapped": {
			map[string][]string{"one": {"a", "x"}, "two": {"b", "q"}},
			map[string][]string{"one": {"a", "q"}, "two": {"b", "x"}},
			map[string]string{"a": "one", "q": "one", "b": "two", "x": "two"},
		},
		"moved": {
			map[string][]string{"one": {"a", "x"}, "two": {"b"}},
			map[string][]string{"one": {"a"}, "two": {"b", "x"}},
			map[string]string{"a": "one", "b": "two", "x": "two"},
		},
		"moved to a new one": {
			map[string][]string{"one": {"a", "x"}},
			map[string][]string{"one": {"a"}, "two": {"x"}},
			map[string]string{"a": "one", "x": "two"},
		},
		"everything moved": {
			map[string][]string{"one": {"x"}, "two": {"b"}},
			map[string][]string{"one": {}, "two": {"b", "x"}},
			map[string]string{"b": "two", "x": "two"},
		},
		"in a ring": {
			map[string][]string{"one": {"a"}, "two": {"b"}, "three": {"c"}},
			map[string][]string{"one": {"c"}, "two": {"a"}, "three": {"b"}},
			map[string]string{"c": "one", "a": "two", "b": "three"},
		},
		"renamed to the other's name": {
			map[string][]string{"one": {"a"}, "two": {"b"}},
			map[string][]string{"two": {"a", "b"}},
			map[string]string{"a": "two", "b": "two"},
		},
		"many renamed": {
			map[string][]string{"1": {"a"}, "2": {"b"}, "3": {"c"}, "4": {"d"}, "5": {"e"}},
			map[string][]string{"6": {"a"}, "7": {"b"}, "8": {"c"}, "9": {"d"}, "0": {"e"}},
			map[string]string{"a": "6", "b": "7", "c": "8", "d": "9", "e": "0"},
		},
	} {
		for _, workers := range []int{1, 2, 16} {
			t.Run(fmt.Sprintf("%s, %d workers", name, workers), func(t *testing.T) {
				bubble(t, reconcile.Settings{Workers: workers}, func(t *testing.T, w *world) {
					w.hand(t, test.before)
					pass(t, time.Minute)
					w.hand(t, test.after)
					pass(t, 20*time.Minute)
					assertOwners(t, w, test.want)
					assertNothingDeleted(t, w)
					for service := range test.after {
						assertPhase(t, w, service, report.Healthy)
					}
				})
			})
		}
	}
}

// hand sets a plan with services of ConfigMaps.
func (w *world) hand(t *testing.T, services map[string][]string) {
	t.Helper()
	var all []plan.Service
	for name, objects := range services {
		all = append(all, w.service(t, name, objects...))
	}
	w.plan(all...)
}

// TestHandOverWaitsForTheNewOne renames a service, and the new one cannot be rendered for a while,
// or never.
func TestHandOverWaitsForTheNewOne(t *testing.T) {
	for name, test := range map[string]struct {
		resolved time.Duration
		deleted  []string
	}{
		"soon":  {time.Minute, nil},
		"never": {0, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				w.plan(w.service(t, "old", "a"))
				pass(t, time.Minute)
				renamed := w.service(t, "new", "a")
				unresolved := renamed
				unresolved.Bundles = nil
				w.plan(unresolved)
				pass(t, time.Minute)
				assertNothingDeleted(t, w)
				if test.resolved > 0 {
					pass(t, test.resolved)
					w.plan(renamed)
				}
				pass(t, 30*time.Minute)
				if !slices.Equal(w.deleted, test.deleted) {
					t.Errorf("deleted: got %v, want %v", w.deleted, test.deleted)
				}
			})
		})
	}
}

// TestBrokenServiceDelaysNoPrune has a service that could not be rendered before another one's
// object left.
func TestBrokenServiceDelaysNoPrune(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		broken := w.service(t, "broken", "z")
		broken.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": "kind: ["})
		w.plan(broken, w.service(t, "s", "a", "b"))
		pass(t, time.Second)
		w.plan(broken, w.service(t, "s", "a"))
		pass(t, time.Second)
		if !slices.Equal(w.deleted, []string{"b"}) {
			t.Errorf("deleted: got %v, want b at once", w.deleted)
		}
		assertPhase(t, w, "s", report.Healthy)
	})
}

// TestHandOverIsTakenBack hands an object over to a service that never takes it, because the plan
// changes first.
func TestHandOverIsTakenBack(t *testing.T) {
	for name, test := range map[string]struct {
		after   map[string][]string
		want    map[string]string
		deleted []string
	}{
		"to the first":  {map[string][]string{"one": {"a", "x"}, "two": {"b"}}, map[string]string{"a": "one", "x": "one", "b": "two"}, nil},
		"to nobody":     {map[string][]string{"one": {"a"}, "two": {"b"}}, map[string]string{"a": "one", "b": "two"}, []string{"x"}},
		"to a third":    {map[string][]string{"one": {"a"}, "two": {"b"}, "three": {"x"}}, map[string]string{"a": "one", "b": "two", "x": "three"}, nil},
		"heir is gone":  {map[string][]string{"one": {"a"}}, map[string]string{"a": "one"}, []string{"b", "x"}},
		"giver is gone": {map[string][]string{"two": {"b", "x"}}, map[string]string{"b": "two", "x": "two"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
				w.hand(t, map[string][]string{"one": {"a", "x"}, "two": {"b"}})
				pass(t, time.Minute)
				paused := w.service(t, "two", "b", "x") // wants it, and takes nothing
				paused.Spec.Paused, paused.SpecDigest = true, "paused"
				w.plan(w.service(t, "one", "a"), paused)
				pass(t, time.Minute)
				assertNothingDeleted(t, w)
				w.hand(t, test.after)
				pass(t, 20*time.Minute)
				assertOwners(t, w, test.want)
				if slices.Sort(w.deleted); !slices.Equal(w.deleted, test.deleted) {
					t.Errorf("deleted: got %v, want %v", w.deleted, test.deleted)
				}
			})
		})
	}
}

// TestHandOverUnderTheLabelOfAnother moves an object with the label of a service that is gone: that
// service handed it over before, and it has not been applied since.
func TestHandOverUnderTheLabelOfAnother(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.hand(t, map[string][]string{"one": {"a", "b"}, "two": {"c"}})
		pass(t, time.Minute)
		w.edit(t, "a", func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{k8s.ServiceLabel: "gone"}) })
		w.hand(t, map[string][]string{"one": {"b"}, "two": {"c", "a"}})
		pass(t, time.Minute)
		assertOwners(t, w, map[string]string{"a": "two", "b": "one", "c": "two"})
		assertNothingDeleted(t, w)
		for _, service := range []string{"one", "two"} {
			assertPhase(t, w, service, report.Healthy)
		}
	})
}

// TestImpostorOfAGoneService has an object that a client has created with the label of a service
// that is gone.
func TestImpostorOfAGoneService(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.hand(t, map[string][]string{"one": {"a", "b"}})
		pass(t, time.Minute)
		w.edit(t, "a", func(o *unstructured.Unstructured) {
			o.SetUID("another")
			o.SetManagedFields(nil)
			o.SetLabels(map[string]string{k8s.ServiceLabel: "gone"})
		})
		w.hand(t, map[string][]string{"one": {"b"}, "two": {"c", "a"}})
		pass(t, time.Minute)
		assertOwners(t, w, map[string]string{"a": "two", "b": "one", "c": "two"})
		assertNothingDeleted(t, w)
	})
}
