// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

// version is a Renderer of one version of an agent: each makes something else of the same kustomization.
type version string

// Render implements render.Renderer.
func (v version) Render(ctx context.Context, in render.Input) (render.Output, error) {
	if v == "broken" {
		return render.Output{}, reason.Errorf(reason.RenderLimit, "this version cannot build it")
	}
	return renderText(ctx, manifest(in.Service, string(v)))
}

// built returns a service that a version of an agent renders.
func (w *world) built(t *testing.T, name string) plan.Service {
	t.Helper()
	s := w.service(t, name)
	s.Bundles[0].Digest = w.pack(t, map[string]string{"kustomization.yaml": "resources: []\n", "README.md": name})
	return s
}

// rehearses has another engine, of another version, compare what it would do, while the first one holds the cluster.
func (w *world) rehearses(t *testing.T, next version, compared int, services []plan.Service, want ...string) {
	t.Helper()
	synctest.Wait()
	applied, deleted := w.count()
	w.mu.Lock()
	saves, renderer := w.saves, w.renderer
	w.mu.Unlock()
	w.renderer = next
	defer func() { w.renderer = renderer }()
	got, err := w.newEngine().Rehearse(t.Context(), plan.Plan{Version: "v", Services: services})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, d := range got.Deviations {
		words = append(words, d.String())
	}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Errorf("version %s (-want +got):\n%s", next, diff)
	}
	if got.Compared != compared || got.Compared+got.Skipped != len(services) {
		t.Errorf("version %s: compared %d and skipped %d, want %d of %d compared", next, got.Compared, got.Skipped, compared, len(services))
	}
	if a, d := w.count(); a != applied || d != deleted || w.saves != saves {
		t.Errorf("version %s: got %d applies, %d deletions and %d stored inventories, want nothing to be written", next, a-applied, d-deleted, w.saves-saves)
	}
}

func TestRehearse(t *testing.T) {
	t.Parallel()
	const updates = "would update ConfigMap default/one of service one"
	for name, test := range map[string]func(*testing.T, *world, plan.Service){
		"the same version": func(t *testing.T, w *world, s plan.Service) {
			w.rehearses(t, "1", 1, []plan.Service{s})
		},
		"a version that makes something else": func(t *testing.T, w *world, s plan.Service) {
			w.rehearses(t, "2", 1, []plan.Service{s}, updates)
		},
		"a version that cannot render": func(t *testing.T, w *world, s plan.Service) {
			w.rehearses(t, "broken", 1, []plan.Service{s}, "would fail in service one (RENDER_LIMIT)")
		},
		"a change that is on its way is not compared": func(t *testing.T, w *world, s plan.Service) {
			s.SpecDigest = "next"
			w.rehearses(t, "2", 0, []plan.Service{s})
		},
		"a new service is not compared": func(t *testing.T, w *world, s plan.Service) {
			w.rehearses(t, "1", 1, []plan.Service{s, w.built(t, "other")})
		},
		"a service that left the plan is not compared": func(t *testing.T, w *world, _ plan.Service) {
			w.rehearses(t, "2", 0, nil)
		},
		"a paused service is not compared": func(t *testing.T, w *world, s plan.Service) {
			s.Spec.Paused = true
			w.rehearses(t, "2", 0, []plan.Service{s})
		},
		"an interrupted run is not compared": func(t *testing.T, w *world, s plan.Service) {
			w.mu.Lock()
			record := w.records["one"]
			record.Touched = true
			w.records["one"] = record
			w.mu.Unlock()
			w.rehearses(t, "2", 0, []plan.Service{s})
		},
		"drift counts until it is corrected": func(t *testing.T, w *world, s plan.Service) {
			w.edit(t, "one", setData("a person's"))
			w.rehearses(t, "1", 1, []plan.Service{s}, updates)
		},
		"drift that stays does not count": func(t *testing.T, w *world, s plan.Service) {
			w.edit(t, "one", setData("a person's"))
			s.Spec.Policy.Drift = syncpolicy.DriftReport
			w.rehearses(t, "1", 1, []plan.Service{s})
		},
		"an object that came counts, wherever drift stays": func(t *testing.T, w *world, s plan.Service) {
			w.erase("one")
			s.Spec.Policy.Drift = syncpolicy.DriftReport
			w.rehearses(t, "1", 1, []plan.Service{s}, "would create ConfigMap default/one of service one")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(reconcile.Settings{})
				w.renderer = version("1")
				stop := w.runUntil(t)
				s := w.built(t, "one")
				w.plan(s)
				synctest.Wait()
				stop()
				test(t, w, s)
			})
		})
	}
}
