// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"context"
	"maps"
	"testing"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// annotated is a cluster with annotations of its document.
type annotated struct {
	cabinet

	annotations map[string]string
}

// ClusterFacts implements manifest.Cluster.
func (a *annotated) ClusterFacts(context.Context) (render.ClusterFacts, error) {
	return render.ClusterFacts{Name: "one", Labels: map[string]string{"region": "eu"}, Annotations: a.annotations}, nil
}

// seeing records what the last render was given.
type seeing struct{ facts render.Facts }

// Render implements render.Renderer.
func (s *seeing) Render(_ context.Context, in render.Input) (render.Output, error) {
	s.facts = in.Facts
	return render.Output{}, nil
}

// TestSecTemplatesSeeListedAnnotations: templates of a service whose limits list annotations are given
// these, and every label.
func TestSecTemplatesSeeListedAnnotations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits *syncpolicy.Limits
		want   map[string]string
	}{
		"no limits":              {nil, map[string]string{"a.example/x": "1", "closed": "hunter2"}},
		"limits without a list":  {&syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"shop"}}, map[string]string{"a.example/x": "1", "closed": "hunter2"}},
		"a list":                 {&syncpolicy.Limits{ClusterAnnotations: syncpolicy.AllowList{"a.example/x"}}, map[string]string{"a.example/x": "1"}},
		"a list without entries": {&syncpolicy.Limits{ClusterAnnotations: syncpolicy.AllowList{}}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, engine := bundles{}, &seeing{}
			cluster := &annotated{annotations: map[string]string{"a.example/x": "1", "closed": "hunter2"}}
			chart := content.add(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "templates/a.yaml": ""})
			service := plan.Service{Name: "shop.web", Bundles: []plan.Bundle{{Digest: chart}}}
			service.Spec.Policy.Limits = test.limits
			r := manifest.Renderer{Bundles: content, Cluster: cluster, Generated: manifest.NewGenerated(cluster), Engine: render.Split{Others: engine}}
			if _, err := r.Render(t.Context(), service, inventory.Applied{}); err != nil {
				t.Fatal(err)
			}
			if got := engine.facts.Cluster; !maps.Equal(got.Annotations, test.want) || got.Labels["region"] != "eu" {
				t.Errorf("got %v, want %v and all labels", got, test.want)
			}
			if len(cluster.annotations) != 2 {
				t.Error("the annotations that all services share were changed")
			}
		})
	}
}
