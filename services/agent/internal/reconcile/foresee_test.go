// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// settled returns an applied service of some ConfigMaps with the value 1.
func (w *world) settled(t *testing.T, change func(*plan.Spec), names ...string) plan.Service {
	t.Helper()
	s := w.service(t, "s")
	s.Bundles[0].Digest = w.pack(t, manifests("1", names...))
	change(&s.Spec)
	w.plan(s)
	synctest.Wait()
	return s
}

func manifests(value string, names ...string) map[string]string {
	files := map[string]string{}
	for _, name := range names {
		files[name+".yaml"] = manifest(name, value)
	}
	return files
}

func plainly(*plan.Spec) {}

// foresees compares the service with other files, and expects these changes of objects; a problem's
// reason follows.
func (w *world) foresees(t *testing.T, files map[string]string, want ...string) string {
	t.Helper()
	applied, deleted := w.count()
	found, err := w.engine.Diff(t.Context(), "s", plan.Bundle{Digest: w.pack(t, files), Commit: "c2"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	text := ""
	for _, d := range found {
		line := map[report.Change]string{
			report.Create: "create ", report.Update: "update ", report.Delete: "delete ", report.Impossible: "impossible ",
		}[d.Change] + d.Ref.Name
		if d.Problem != nil {
			line += " " + d.Problem.Reason.String()
		}
		got, text = append(got, line), text+d.Unified
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if a, d := w.count(); a != applied || d != deleted {
		t.Errorf("got %d applies and %d deletions, want nothing to be done", a-applied, d-deleted)
	}
	return text
}

func TestDiffWithACandidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *world){
		"the same": func(t *testing.T, w *world) {
			w.settled(t, plainly, "a", "b")
			w.foresees(t, manifests("1", "a", "b"))
		},
		"created, changed, deleted": func(t *testing.T, w *world) {
			w.settled(t, plainly, "a", "b")
			files := manifests("2", "a", "c")
			if text := w.foresees(t, files, "update a", "create c", "delete b"); !strings.Contains(text, `+  value: "2"`) {
				t.Errorf("got\n%s\nwant the new value", text)
			}
		},
		"without prune nothing is deleted": func(t *testing.T, w *world) {
			w.settled(t, func(s *plan.Spec) { s.Prune = new(false) }, "a", "b")
			w.foresees(t, manifests("1", "a"))
		},
		"the guard": func(t *testing.T, w *world) {
			var names, want []string
			for i := range 8 {
				names = append(names, fmt.Sprint("o", i))
			}
			for _, name := range names[1:] {
				want = append(want, "delete "+name+" PRUNE_GUARDED")
			}
			w.settled(t, plainly, names...)
			w.foresees(t, manifests("1", names[0]), want...)
		},
		"one that is refused does not hide the others": func(t *testing.T, w *world) {
			w.settled(t, plainly, "a", "b")
			w.onApply = func(_ context.Context, o *unstructured.Unstructured) error {
				if o.GetName() == "a" {
					return rejected()
				}
				return nil
			}
			w.foresees(t, manifests("2", "a", "b"), "impossible a APPLY_REJECTED", "update b")
		},
		"what belongs to others": func(t *testing.T, w *world) {
			other := w.service(t, "other", "claimed", "stranger")
			other.Spec.Paused = true
			s := w.settled(t, func(s *plan.Spec) { s.Policy.Adoption = syncpolicy.AdoptNever }, "a")
			w.plan(s, other)
			synctest.Wait()
			for name, labels := range map[string]map[string]string{"stranger": nil, "claimed": {k8s.ServiceLabel: "other"}} {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
				o.SetName(name)
				o.SetNamespace("default")
				o.SetLabels(labels)
				w.mu.Lock()
				w.objects[configMapKey(name)] = o
				w.mu.Unlock()
			}
			w.foresees(t, manifests("1", "a", "claimed", "stranger"), "impossible claimed OBJECT_CLAIMED", "impossible stranger OBJECT_UNMANAGED")
		},
		"hooks are left out": func(t *testing.T, w *world) {
			w.settled(t, plainly, "a")
			files := manifests("1", "a")
			files["hook.yaml"] = jobFile("h", "leat.dev/phase: PreSync")
			w.foresees(t, files)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, reconcile.Settings{}, test) })
	}
}

// TestDiffThatCannotBe has failures of the whole comparison.
func TestDiffThatCannotBe(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.settled(t, plainly, "a")
		if _, err := w.engine.Diff(t.Context(), "nobody"); !errors.Is(err, reconcile.ErrUnknownService) {
			t.Errorf("got %v, want an unknown service", err)
		}
		_, err := w.engine.Diff(t.Context(), "s", plan.Bundle{Digest: w.pack(t, map[string]string{"a.yaml": "kind: ["})})
		if got := reason.ProblemOf(err).Reason; got != reason.ManifestInvalid {
			t.Errorf("got %v, want MANIFEST_INVALID", err)
		}
		missing := w.pack(t, manifests("3", "a"))
		w.mu.Lock()
		delete(w.bundles, missing)
		w.mu.Unlock()
		_, err = w.engine.Diff(t.Context(), "s", plan.Bundle{Digest: missing})
		if got := reason.ProblemOf(err).Reason; got != reason.BundleUnavailable {
			t.Errorf("got %v, want BUNDLE_UNAVAILABLE", err)
		}
		s.SpecDigest, s.Refused = "newer", reconcile.Refuse(errors.New("drift"))
		w.plan(s)
		synctest.Wait()
		_, err = w.engine.Diff(t.Context(), "s")
		if got := reason.ProblemOf(err).Reason; got != reason.Unimplemented {
			t.Errorf("got %v, want UNIMPLEMENTED", err)
		}
		if _, still := w.records["s"].Objects.Get(inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "a"}); !still {
			t.Error("a diff changed the inventory")
		}
	})
}

// TestSecDiffIsBounded compares a list with its reverse, which is the worst case. The comparison
// would take long, and could not be interrupted.
func TestSecDiffIsBounded(t *testing.T) {
	t.Parallel()
	const lines = 30_000
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		w.run(t)
		var forward, backward strings.Builder
		for i := range lines {
			fmt.Fprintf(&forward, "- l%d\n", i)
			fmt.Fprintf(&backward, "- l%d\n", lines-1-i)
		}
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nlist:\n"
		s := w.service(t, "s")
		s.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": text + forward.String()})
		w.plan(s)
		synctest.Wait()
		diff := w.foresees(t, map[string]string{"a.yaml": text + backward.String()}, "update a")
		if !strings.Contains(diff, "more lines may differ than are compared") {
			t.Errorf("got a diff of %d bytes, want a note that more lines may differ", len(diff))
		}
	})
}
