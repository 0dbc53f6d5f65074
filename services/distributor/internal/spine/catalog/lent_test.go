// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSecSharesListAnnotations: another project sees the annotations of a cluster that a share lists
// which lends that cluster to that project.
func TestSecSharesListAnnotations(t *testing.T) {
	t.Parallel()
	named := func(names ...string) catalog.Selection { return catalog.Selection{Names: names} }
	list := func(patterns ...string) syncpolicy.AllowList { return patterns }
	prod := catalog.Selection{Labels: &catalog.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}}
	all := []string{"a.example/x", "a.example/y", "b"}
	for name, test := range map[string]struct {
		shares []catalog.ProjectShare
		own    string
		want   []string
	}{
		"the cluster's own project":      {nil, "platform", all},
		"no share":                       {nil, "shop", nil},
		"a share without a list":         {[]catalog.ProjectShare{{Projects: named("shop"), Clusters: named("berlin")}}, "shop", nil},
		"an empty list":                  {[]catalog.ProjectShare{{Projects: named("shop"), Clusters: named("berlin"), ClusterAnnotations: list()}}, "shop", nil},
		"one key":                        {[]catalog.ProjectShare{{Projects: named("shop"), Clusters: named("berlin"), ClusterAnnotations: list("b")}}, "shop", []string{"b"}},
		"a pattern, by labels":           {[]catalog.ProjectShare{{Projects: named("shop"), Clusters: prod, ClusterAnnotations: list("a.example/*")}}, "shop", all[:2]},
		"everything":                     {[]catalog.ProjectShare{{Projects: catalog.Selection{All: true}, Clusters: prod, ClusterAnnotations: list("**")}}, "shop", all},
		"a list for another project":     {[]catalog.ProjectShare{{Projects: named("blog"), Clusters: prod, ClusterAnnotations: list("**")}}, "shop", nil},
		"a list for another cluster":     {[]catalog.ProjectShare{{Projects: named("shop"), Clusters: named("paris"), ClusterAnnotations: list("**")}}, "shop", nil},
		"a list beside a share of it":    {[]catalog.ProjectShare{{Projects: named("shop"), Clusters: named("berlin")}, {Projects: named("shop"), Clusters: named("paris"), ClusterAnnotations: list("**")}}, "shop", nil},
		"lists of several shares add up": {[]catalog.ProjectShare{{Projects: named("shop"), Clusters: prod, ClusterAnnotations: list("b")}, {Projects: named("shop"), Clusters: prod, ClusterAnnotations: list("a.example/y")}}, "shop", all[1:]},
		"a project that is gone":         {[]catalog.ProjectShare{{Projects: catalog.Selection{All: true}, Clusters: prod, ClusterAnnotations: list("**")}}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &catalog.Cluster{Metadata: catalog.Metadata{
				Name: "platform.berlin", Labels: map[string]string{"stage": "prod"}, Annotations: map[string]string{"a.example/x": "1", "a.example/y": "2", "b": "3"},
			}}
			owner := &catalog.Project{Metadata: catalog.Metadata{Name: "platform"}, Spec: catalog.ProjectSpec{Shares: test.shares}}
			var own *catalog.Project
			if test.own != "" {
				own = &catalog.Project{Metadata: catalog.Metadata{Name: test.own}}
			}
			seen := cluster.SeenBy(own, owner)
			if got := slices.Sorted(maps.Keys(seen.Annotations)); !slices.Equal(got, test.want) || seen.Labels["stage"] != "prod" || len(cluster.Annotations) != 3 {
				t.Errorf("got %q, want %q, all labels, and a cluster that did not change", got, test.want)
			}
			if got := cluster.AnnotationsFor(own, owner); (got == nil) != (len(test.want) == len(all)) || got != nil && !slices.Equal(got, test.want) {
				t.Errorf("got %q, want no list for everything, and otherwise %q", got, test.want)
			}
		})
	}
}
