// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package derive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func cluster(name string, labels map[string]string, version string) *derive.Cluster {
	return &derive.Cluster{Seen: &catalog.Cluster{
		Metadata: catalog.Metadata{Name: name, UID: "uid-of-" + name, Labels: labels},
		Agent:    catalog.Agent{Report: catalog.ClusterReport{KubernetesVersion: version, AgentVersion: version}},
	}}
}

func byLabel(key, value string) catalog.ClusterTarget {
	return catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{Labels: &catalog.LabelSelector{MatchLabels: map[string]string{key: value}}}}
}

// web is a global service with one source; change may alter it.
func web(change ...func(*catalog.GlobalServiceSpec)) *catalog.GlobalService {
	g := &catalog.GlobalService{Metadata: catalog.Metadata{Name: "web", UID: "uid-of-web", Generation: 3}, Spec: catalog.GlobalServiceSpec{
		Clusters: catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}},
		Template: catalog.ServiceTemplate{Spec: catalog.ServiceSpec{
			Sources: []catalog.Source{{Repository: "demo", Path: "app"}}, Options: &syncpolicy.Options{Namespace: "web"},
		}},
	}}
	for _, c := range change {
		c(&g.Spec)
	}
	return g
}

// derivedFor returns the service of a cluster.
func derivedFor(t interface{ Fatal(args ...any) }, g *derive.Global, c *derive.Cluster) *catalog.Service {
	derived, err := g.Derive(context.Background(), c, "all")
	if err != nil {
		t.Fatal(err)
	}
	return derived.Service()
}

func compiled(t interface{ Fatal(args ...any) }, g *catalog.GlobalService) *derive.Global {
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := derive.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMatches(t *testing.T) {
	t.Parallel()
	eu := cluster("eu", map[string]string{"region": "eu"}, "v1.33.2-gke.1")
	bare := cluster("shop.bare", nil, "")
	for _, c := range []struct {
		target   catalog.ClusterTarget
		eu, bare string
	}{
		{catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}}, "all", "all"},
		{catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{Names: []string{"shop.bare"}}}, "", "names"},
		{byLabel("region", "eu"), "labels", ""},
		{catalog.ClusterTarget{When: "self.labels.region == 'eu'"}, "when", ""},
		{catalog.ClusterTarget{When: "self.project == 'shop' && self.name == 'bare'"}, "", "when"},
		{catalog.ClusterTarget{When: "self.kubernetes.minor >= 33 && self.kubernetes.provider == 'gke'"}, "when", ""},
		{catalog.ClusterTarget{When: "self.kubernetes.major == 2"}, "", ""},
		{catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}, When: "has(self.agent)"}, "all+when", ""},
	} {
		g := compiled(t, web(func(s *catalog.GlobalServiceSpec) { s.Clusters = c.target }))
		for at, want := range map[*derive.Cluster]string{eu: c.eu, bare: c.bare} {
			how, ok, err := g.Matches(t.Context(), at)
			if err != nil || ok != (want != "") || ok && how != want {
				t.Errorf("%+v, %s: got %q, %v, %v, want %q", c.target, at.Seen.Name, how, ok, err, want)
			}
		}
	}
}

// TestProviders takes a provider from the version, and else from what the agent saw of the nodes.
func TestProviders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, reported, want string }{
		{"v1.33.2-gke.1", "", "gke"},
		{"v1.31.4-eks-1a2b3c", "", "eks"},
		{"v1.33.2", "aks", "aks"},
		{"v1.28.100-akslts", "", "aks"},
		{"v1.33.2+k3s1", "aks", "k3s"},
		{"v1.33.2", "", ""},
	} {
		of := cluster("c", nil, c.version)
		of.Seen.Agent.Report.Provider = c.reported
		g := compiled(t, web(func(s *catalog.GlobalServiceSpec) {
			s.Clusters = catalog.ClusterTarget{When: "self.kubernetes.provider == '" + c.want + "'"}
		}))
		if _, ok, err := g.Matches(t.Context(), of); !ok || err != nil {
			t.Errorf("%+v: got %v, %v", c, ok, err)
		}
	}
}

// TestSecConditionsOnHiddenAnnotationsAreUndecided: a condition on annotations that no share lists selects
// the cluster with an error, so that it takes no service away and shows nothing.
func TestSecConditionsOnHiddenAnnotationsAreUndecided(t *testing.T) {
	t.Parallel()
	shop := &catalog.Project{Metadata: catalog.Metadata{Name: "shop"}}
	owner := func(lists ...string) *catalog.Project {
		return &catalog.Project{Metadata: catalog.Metadata{Name: "default"}, Spec: catalog.ProjectSpec{Shares: []catalog.ProjectShare{{
			Projects: catalog.Selection{All: true}, Clusters: catalog.Selection{All: true}, ClusterAnnotations: lists,
		}}}}
	}
	eu := cluster("eu", map[string]string{"region": "eu"}, "").Seen
	eu.Annotations = map[string]string{"team": "a", "closed": "hunter2"}
	for _, c := range []struct {
		when      string
		lists     []string
		isOK      bool
		isDecided bool
	}{
		{"self.labels.region == 'eu'", nil, true, true},
		{"self.annotations.team == 'a'", nil, true, false},
		{"!('closed' in self.annotations)", nil, true, false},
		{"self.annotations.closed == 'hunter2'", nil, true, false},
		{"self.annotations.team == 'a'", []string{"team"}, true, true},
		{"self.annotations.closed == 'hunter2'", []string{"team"}, false, true},
		{"'closed' in self.annotations", []string{"team"}, false, true},
	} {
		g := compiled(t, web(func(s *catalog.GlobalServiceSpec) { s.Clusters = catalog.ClusterTarget{When: c.when} }))
		_, ok, err := g.Matches(t.Context(), derive.ClusterFor(eu, shop, owner(c.lists...)))
		if ok != c.isOK || (err == nil) != c.isDecided {
			t.Errorf("%s with %q: got %v, %v", c.when, c.lists, ok, err)
		}
	}
}

// TestAnExpressionThatFailsSelects keeps a condition that cannot be decided from taking services away.
func TestAnExpressionThatFailsSelects(t *testing.T) {
	t.Parallel()
	g := compiled(t, web(func(s *catalog.GlobalServiceSpec) { s.Clusters = catalog.ClusterTarget{When: "self.name + 1 == 2"} }))
	if _, ok, err := g.Matches(t.Context(), cluster("eu", nil, "")); !ok || err == nil || !strings.Contains(err.Error(), "spec.clusters.when") {
		t.Errorf("got %v, %v, want selected, with an error", ok, err)
	}
}

func TestOverridesInOrder(t *testing.T) {
	t.Parallel()
	g := web(func(s *catalog.GlobalServiceSpec) {
		s.Template.Spec.Config = &catalog.Config{
			Values: map[string]string{"A": "template", "B": "template", "S": "a value"}, Secrets: map[string]secret.Text{"T": "secret of the template"},
		}
		s.Overrides = []catalog.ServiceOverride{
			{
				Name: "first", Clusters: byLabel("region", "eu"),
				Config: &catalog.Config{Values: map[string]string{"A": "first", "T": "now a value"}, Secrets: map[string]secret.Text{"S": "now a secret"}},
				Patch:  catalog.ServicePatch{Namespace: new("first"), Paused: new(true)},
			},
			{
				Name: "second", Clusters: byLabel("size", "large"), Config: &catalog.Config{Values: map[string]string{"A": "second ${{ self.name }}"}},
				Patch: catalog.ServicePatch{Paused: new(false), Sources: []catalog.SourcePatch{{Path: new("other"), Ref: &catalog.Ref{Kind: catalog.RefTag, Value: "v1"}}}},
			},
		}
	})
	g.SecretDigests = []map[string]string{{"T": "digest 1"}, {"S": "digest 2"}, {}}
	c := compiled(t, g)
	both := map[string]string{"region": "eu", "size": "large"}
	for _, want := range []struct {
		labels    map[string]string
		overrides []string
		namespace string
		paused    bool
		path      string
		values    map[string]string
		secrets   map[string]secret.Text
	}{
		{nil, nil, "web", false, "app", map[string]string{"A": "template", "B": "template", "S": "a value"}, map[string]secret.Text{"T": "secret of the template"}},
		{both, []string{"first", "second"}, "first", false, "other", map[string]string{"A": "second c", "B": "template", "T": "now a value"}, map[string]secret.Text{"S": "now a secret"}},
		{map[string]string{"region": "eu"}, []string{"first"}, "first", true, "app", map[string]string{"A": "first", "B": "template", "T": "now a value"}, map[string]secret.Text{"S": "now a secret"}},
	} {
		got := derivedFor(t, c, cluster("c", want.labels, ""))
		options := got.Spec.Wanted()
		if !slices.Equal(got.Derived.OverrideNames, want.overrides) || options.Namespace != want.namespace || options.Paused != want.paused ||
			got.Spec.Sources[0].Path != want.path || !maps.Equal(got.Spec.Config.Values, want.values) {
			t.Errorf("%v: got %+v with %+v, want %+v", want.labels, got.Spec, got.Spec.Config, want)
		}
		member, err := c.Resolve(t.Context(), cluster("c", want.labels, ""))
		if err != nil {
			t.Fatal(err)
		}
		if whole := member.Compose().Literals(); !maps.Equal(whole.Secrets, want.secrets) || !maps.Equal(whole.Values, want.values) {
			t.Errorf("%v: got %v, want %v", want.labels, whole, want.secrets)
		}
		for key, text := range got.Spec.Config.Secrets {
			if text != "" {
				t.Errorf("secret %s is in the derived service", key)
			}
		}
	}
}

// TestErrorsNameFieldAndCluster is about what people have to correct.
func TestErrorsNameFieldAndCluster(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field  string
		change func(*catalog.GlobalServiceSpec)
	}{
		{"spec.template.namespace", func(s *catalog.GlobalServiceSpec) {
			s.Template.Spec.Options = &syncpolicy.Options{Namespace: "${{ self.labels.none }}"}
		}},
		{"spec.template.namespace", func(s *catalog.GlobalServiceSpec) {
			s.Template.Spec.Options = &syncpolicy.Options{Namespace: "${{ 'No Namespace' }}"}
		}},
		{"spec.template.sources[0].path", func(s *catalog.GlobalServiceSpec) { s.Template.Spec.Sources[0].Path = "a/${{ '../../etc' }}" }},
		{"spec.template.config.values[A]", func(s *catalog.GlobalServiceSpec) {
			s.Template.Spec.Config = &catalog.Config{Values: map[string]string{"A": "${{ self.labels.none }}"}}
		}},
		{"spec.overrides[0].clusters.when", func(s *catalog.GlobalServiceSpec) {
			s.Overrides = []catalog.ServiceOverride{{Name: "o", Clusters: catalog.ClusterTarget{When: "self.name + 1 == 2"}}}
		}},
	} {
		_, err := compiled(t, web(c.change)).Derive(t.Context(), cluster("shop.berlin", nil, ""), "all")
		if e, ok := errors.AsType[*derive.Error](err); !ok || e.Field != c.field || e.Cluster != "shop.berlin" || !strings.Contains(err.Error(), "shop/berlin") {
			t.Errorf("got %v, want an error about %s", err, c.field)
		}
	}
}

// TestInvalidGlobalServices are refused before there is a cluster.
func TestInvalidGlobalServices(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*catalog.GlobalServiceSpec){
		"spec.clusters":                       func(s *catalog.GlobalServiceSpec) { s.Clusters = catalog.ClusterTarget{} },
		"spec.clusters.when":                  func(s *catalog.GlobalServiceSpec) { s.Clusters = catalog.ClusterTarget{When: "self.name" + " +"} },
		"spec.template.sources":               func(s *catalog.GlobalServiceSpec) { s.Template.Spec.Sources = nil },
		"spec.template.sources[0].repository": func(s *catalog.GlobalServiceSpec) { s.Template.Spec.Sources[0].Repository = "${{ self.name }}" },
		"spec.template.cluster":               func(s *catalog.GlobalServiceSpec) { s.Template.Spec.Cluster = "one" },
		"spec.template.config.references": func(s *catalog.GlobalServiceSpec) {
			s.Template.Spec.Config = &catalog.Config{References: map[string]string{"A": "no reference"}}
		},
		"spec.overrides[0].namespace": func(s *catalog.GlobalServiceSpec) {
			s.Overrides = []catalog.ServiceOverride{{Name: "o", Clusters: byLabel("a", "b"), Patch: catalog.ServicePatch{Namespace: new("No")}}}
		},
		"spec.overrides[0].sources[0].source": func(s *catalog.GlobalServiceSpec) {
			s.Overrides = []catalog.ServiceOverride{{Name: "o", Clusters: byLabel("a", "b"), Patch: catalog.ServicePatch{Sources: []catalog.SourcePatch{{Source: 1}}}}}
		},
		"spec.overrides[1].name": func(s *catalog.GlobalServiceSpec) {
			s.Overrides = []catalog.ServiceOverride{{Name: "o", Clusters: byLabel("a", "b")}, {Name: "o", Clusters: byLabel("a", "c")}}
		},
		"spec.removal.max_percent": func(s *catalog.GlobalServiceSpec) { s.Removal.MaxPercent = new(int32(101)) },
	} {
		if err := web(change).Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("got %v, want an error about %s", err, field)
		}
	}
}

// TestDerivationIsPure derives for random clusters, in two orders and by two compilations.
func TestDerivationIsPure(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := web(func(s *catalog.GlobalServiceSpec) {
			s.Template.Labels = map[string]string{"team": "a"}
			s.Template.Spec.Options = &syncpolicy.Options{Namespace: "ns-${{ self.labels.region }}"}
			s.Template.Spec.Config = &catalog.Config{Values: map[string]string{"N": rapid.SampledFrom([]string{"x", "${{ self.name }}"}).Draw(t, "value")}}
			for i := range rapid.IntRange(0, 4).Draw(t, "overrides") {
				s.Overrides = append(s.Overrides, catalog.ServiceOverride{
					Name: fmt.Sprint("o", i), Clusters: byLabel("size", fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "size"))),
					Config: &catalog.Config{Values: map[string]string{"O": fmt.Sprint(i)}},
				})
			}
		})
		var clusters []*catalog.Cluster
		for i := range rapid.IntRange(1, 8).Draw(t, "clusters") {
			labels := map[string]string{"region": rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region"), "size": fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "size"))}
			clusters = append(clusters, cluster(fmt.Sprint("c", i), labels, "").Seen)
		}
		derived := func(clusters []*catalog.Cluster) map[string]*catalog.Service {
			c, services := compiled(t, g), map[string]*catalog.Service{}
			for _, cluster := range clusters {
				service := derivedFor(t, c, &derive.Cluster{Seen: cluster})
				if services[service.UID] != nil || service.Validate() != nil {
					t.Fatalf("got %+v twice, or invalid", service)
				}
				if service.Common != nil && !service.IsCommon() {
					t.Fatalf("got %+v beside the common %+v", service, service.Common)
				}
				service.Common = nil // the first service of a content does not know that others follow
				services[service.UID] = service
			}
			return services
		}
		first := derived(clusters)
		slices.Reverse(clusters)
		if second := derived(clusters); !reflect.DeepEqual(first, second) {
			t.Fatalf("got %v and %v for the same", first, second)
		}
	})
}

// TestSecTemplateHasOneBudget fills a template with parameters that are each allowed: together they
// exceed the budget of one cluster, which fails the service and names the field.
func TestSecTemplateHasOneBudget(t *testing.T) {
	t.Parallel()
	costly := "${{ lists.range(40).all(a, lists.range(40).all(b, a + b >= 0)) ? 'x' : '' }}" // some 15,000 units
	with := func(values int) *derive.Global {
		return compiled(t, web(func(s *catalog.GlobalServiceSpec) {
			s.Template.Spec.Config = &catalog.Config{Values: map[string]string{}}
			for i := range values {
				s.Template.Spec.Config.Values[fmt.Sprintf("V%03d", i)] = costly
			}
			s.Overrides = []catalog.ServiceOverride{{Name: "all", Clusters: catalog.ClusterTarget{When: "lists.range(500).all(a, a >= 0)"}}}
		}))
	}
	if _, err := with(5).Derive(t.Context(), cluster("berlin", nil, ""), "all"); err != nil {
		t.Errorf("got %v for a template within the budget", err)
	}
	_, err := with(60).Derive(t.Context(), cluster("berlin", nil, ""), "all")
	failed, ok := errors.AsType[*derive.Error](err)
	if !ok || !strings.HasPrefix(failed.Field, "spec.template.config.values") || !errors.Is(err, expression.ErrTooExpensive) {
		t.Errorf("got %v, want that the template costs too much", err)
	}
	if _, err := with(5).Derive(t.Context(), cluster("lima", nil, ""), "all"); err != nil {
		t.Errorf("got %v, want a budget of its own for each cluster", err)
	}
}

// TestSecConditionsAreCheap refuses the evaluation of a condition that costs more than one may, and keeps
// the cluster selected.
func TestSecConditionsAreCheap(t *testing.T) {
	t.Parallel()
	c := compiled(t, web(func(s *catalog.GlobalServiceSpec) {
		s.Clusters.When = "lists.range(100).all(a, lists.range(100).all(b, a + b >= 0))"
	}))
	if _, ok, err := c.Matches(t.Context(), cluster("berlin", nil, "")); !ok || !errors.Is(derive.Failure(c.Spec(), cluster("berlin", nil, "").Seen, err), expression.ErrTooExpensive) {
		t.Errorf("got %v, %v, want a selected cluster with an error", ok, err)
	}
}

// TestOverridesOfValuesAndLabels puts values of a chart and labels over the template's, by two
// overrides for one cluster. Other clusters, and the template, keep theirs.
func TestOverridesOfValuesAndLabels(t *testing.T) {
	t.Parallel()
	g := web(func(s *catalog.GlobalServiceSpec) {
		s.Template.Labels = map[string]string{"app": "web", "tier": "front"}
		s.Template.Spec.Options.Render = []renderstep.Step{{Renderer: renderstep.Kustomize, Path: "base"}, {Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
			Values: map[string]any{"image": map[string]any{"tag": "v1", "repo": "web"}, "hosts": []any{"a"}, "debug": true},
		}}}
		s.Overrides = []catalog.ServiceOverride{
			{Name: "eu", Clusters: byLabel("region", "eu"), Patch: catalog.ServicePatch{
				Labels: map[string]string{"tier": "back", "region": "${{ self.labels.region }}"},
				Render: []catalog.StepPatch{{Step: 1, Values: map[string]any{"image": map[string]any{"tag": "v2-${{ self.name }}"}, "hosts": []any{"b"}}}},
			}},
			{Name: "last", Clusters: byLabel("region", "eu"), Patch: catalog.ServicePatch{
				Render: []catalog.StepPatch{{Step: 1, Values: map[string]any{"debug": nil, "more": map[string]any{"x": "y"}}}},
			}},
		}
	})
	derived := compiled(t, g)
	for name, want := range map[string]struct {
		labels map[string]string
		values map[string]any
	}{
		"eu": {
			map[string]string{"app": "web", "tier": "back", "region": "eu"},
			map[string]any{"image": map[string]any{"tag": "v2-eu", "repo": "web"}, "hosts": []any{"b"}, "debug": nil, "more": map[string]any{"x": "y"}},
		},
		"us": {map[string]string{"app": "web", "tier": "front"}, map[string]any{"image": map[string]any{"tag": "v1", "repo": "web"}, "hosts": []any{"a"}, "debug": true}},
	} {
		service := derivedFor(t, derived, cluster(name, map[string]string{"region": name}, "v1.33.2"))
		got := service.Spec.Options.Render
		if !maps.Equal(service.Labels, want.labels) || !reflect.DeepEqual(got[1].Helm.Values, want.values) || got[0].Renderer != renderstep.Kustomize {
			t.Errorf("%s: got labels %v and values %v, want %v", name, service.Labels, got[1].Helm.Values, want)
		}
	}
	for field, patch := range map[string]catalog.ServicePatch{
		"spec.overrides[0].render[0].step":                   {Render: []catalog.StepPatch{{Step: 2}}},
		"spec.overrides[0].render[1].step":                   {Render: []catalog.StepPatch{{Step: 1}, {Step: 0}}},
		"spec.overrides[0].labels[leat.dev/up-to-the-hub]":   {Labels: map[string]string{"leat.dev/up-to-the-hub": "x"}},
		"spec.overrides[0].render[0].values.image.tag (cel)": {Render: []catalog.StepPatch{{Step: 1, Values: map[string]any{"image": map[string]any{"tag": "${{ self.lables }}"}}}}},
	} {
		wrong := web(func(s *catalog.GlobalServiceSpec) {
			*s = g.Spec
			s.Overrides = []catalog.ServiceOverride{{Name: "x", Clusters: byLabel("a", "b"), Patch: patch}}
		})
		err := wrong.Validate()
		if err == nil || !strings.HasSuffix(field, "(cel)") && !strings.HasPrefix(err.Error(), field) {
			t.Errorf("got %v, want an error of %s", err, field)
		}
	}
}
