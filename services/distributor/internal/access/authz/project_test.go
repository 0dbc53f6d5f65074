// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func projectOf(change func(*catalog.Project)) *catalog.Project {
	p := &catalog.Project{Metadata: catalog.Metadata{Name: "stall", Labels: map[string]string{"team": "stall"}}}
	if change != nil {
		change(p)
	}
	return p
}

func sharing(shares ...catalog.ProjectShare) *catalog.Project {
	return projectOf(func(p *catalog.Project) { p.Spec.Shares = shares })
}

func limited(change func(*catalog.ProjectSpec)) *catalog.Project {
	return projectOf(func(p *catalog.Project) {
		p.Spec.Limits = catalog.ProjectLimits{
			Limits:       syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"shop", "shop-*"}, ClusterScopedKinds: syncpolicy.AllowList{}, ServiceAccounts: syncpolicy.AllowList{"shop/deployer"}},
			Repositories: syncpolicy.AllowList{"https://git.example.com/shop/**"}, Clusters: syncpolicy.AllowList{"one"},
		}
		p.Spec.Quotas = catalog.ProjectQuotas{Services: new(int32(5)), Repositories: new(int32(5))}
		if change != nil {
			change(&p.Spec)
		}
	})
}

// TestSecProjectsGiveNothingUnheld decides changes of the project stall for people who may update all
// projects and hold one thing besides.
func TestSecProjectsGiveNothingUnheld(t *testing.T) {
	t.Parallel()
	b := fleet()
	b.roles["planner"] = catalog.RoleSpec{Permissions: []catalog.Permissible{{Verbs: []string{"*"}, Resources: []string{"projects"}}}}
	var (
		guests     = catalog.Selection{Names: []string{"guest"}}
		everything = catalog.Selection{All: true}
		oneCluster = catalog.ProjectShare{Projects: guests, Clusters: catalog.Selection{Names: []string{"one"}}}
		allOfThem  = catalog.ProjectShare{Projects: guests, Clusters: everything}
		oneChart   = catalog.ProjectShare{Projects: guests, Repositories: catalog.Selection{Names: []string{"charts"}}}
		allCharts  = catalog.ProjectShare{Projects: guests, Repositories: everything}
		nothing    = catalog.AccessBindingSpec{Role: catalog.RoleNone, Hub: true}
		owner      = catalog.AccessBindingSpec{Role: catalog.RoleAdmin, Projects: stall}
		editor     = catalog.AccessBindingSpec{Role: catalog.RoleEditor, Projects: stall}
		keeper     = catalog.AccessBindingSpec{Role: catalog.RoleAdmin, Clusters: catalog.ClusterSelection{Names: []string{"stall.one"}}}
		allAdmin   = catalog.AccessBindingSpec{Role: catalog.RoleAdmin, Clusters: catalog.ClusterSelection{All: true}}
		projects   = catalog.AccessBindingSpec{Role: catalog.RoleAdmin, Projects: catalog.ProjectScope{All: true}}
		hub        = catalog.AccessBindingSpec{Role: catalog.RoleAdmin, Hub: true}
		ending     = catalog.AccessBindingSpec{Role: catalog.RoleAdmin, Hub: true, ExpiresAt: time.Now().Add(time.Hour)}
		editAll    = catalog.AccessBindingSpec{Role: catalog.RoleEditor, Hub: true}
	)
	ns := func(list syncpolicy.AllowList) func(*catalog.ProjectSpec) {
		return func(s *catalog.ProjectSpec) { s.Limits.Namespaces = list }
	}
	for name, test := range map[string]struct {
		current, next *catalog.Project
		may, mayNot   []catalog.AccessBindingSpec
	}{
		"a description":             {projectOf(nil), projectOf(func(p *catalog.Project) { p.Spec.Description = "x" }), []catalog.AccessBindingSpec{nothing}, nil},
		"a new project":             {nil, projectOf(func(p *catalog.Project) { p.Labels = nil }), []catalog.AccessBindingSpec{nothing}, nil},
		"a new project with limits": {nil, func() *catalog.Project { p := limited(nil); p.Labels = nil; return p }(), []catalog.AccessBindingSpec{nothing}, nil},
		"a removed project":         {projectOf(nil), nil, []catalog.AccessBindingSpec{nothing}, nil},
		"a cluster":                 {projectOf(nil), sharing(oneCluster), []catalog.AccessBindingSpec{owner, keeper, allAdmin, projects, hub}, []catalog.AccessBindingSpec{nothing, editor, editAll, ending}},
		"all clusters":              {projectOf(nil), sharing(allOfThem), []catalog.AccessBindingSpec{owner, allAdmin, hub}, []catalog.AccessBindingSpec{nothing, editor, keeper}},
		"clusters by labels": {
			projectOf(nil), sharing(catalog.ProjectShare{Projects: guests, Clusters: catalog.Selection{Labels: prod.Labels}}),
			[]catalog.AccessBindingSpec{owner, allAdmin, {Role: catalog.RoleAdmin, Clusters: prod}},
			[]catalog.AccessBindingSpec{keeper, nothing},
		},
		"a repository":           {projectOf(nil), sharing(oneChart), []catalog.AccessBindingSpec{owner, editor, editAll, {Role: catalog.RoleEditor, Repositories: []string{"stall.charts"}}}, []catalog.AccessBindingSpec{nothing, keeper, {Role: catalog.RoleEditor, Repositories: []string{"charts"}}}},
		"all repositories":       {projectOf(nil), sharing(allCharts), []catalog.AccessBindingSpec{owner, editor, projects}, []catalog.AccessBindingSpec{nothing, {Role: catalog.RoleEditor, Repositories: []string{"stall.charts"}}}},
		"from a new project":     {nil, projectOf(func(p *catalog.Project) { p.Labels, p.Spec.Shares = nil, []catalog.ProjectShare{allOfThem} }), []catalog.AccessBindingSpec{owner}, []catalog.AccessBindingSpec{nothing}},
		"no less than before":    {sharing(oneCluster, allCharts), sharing(oneCluster, allCharts), []catalog.AccessBindingSpec{nothing}, nil},
		"less than before":       {sharing(allOfThem, allCharts), sharing(oneCluster, oneChart), []catalog.AccessBindingSpec{nothing}, nil},
		"with one more project":  {sharing(oneCluster), sharing(catalog.ProjectShare{Projects: catalog.Selection{Names: []string{"guest", "mine"}}, Clusters: oneCluster.Clusters}), []catalog.AccessBindingSpec{keeper}, []catalog.AccessBindingSpec{nothing}},
		"with all projects":      {sharing(oneCluster), sharing(catalog.ProjectShare{Projects: everything, Clusters: oneCluster.Clusters}), []catalog.AccessBindingSpec{keeper}, []catalog.AccessBindingSpec{nothing}},
		"one more cluster":       {sharing(oneCluster), sharing(catalog.ProjectShare{Projects: guests, Clusters: catalog.Selection{Names: []string{"one", "two"}}}), []catalog.AccessBindingSpec{owner}, []catalog.AccessBindingSpec{nothing, keeper}},
		"what was with others":   {sharing(oneCluster, catalog.ProjectShare{Projects: catalog.Selection{Names: []string{"mine"}}, Clusters: everything}), sharing(allOfThem), []catalog.AccessBindingSpec{owner}, []catalog.AccessBindingSpec{nothing}},
		"labels":                 {projectOf(nil), projectOf(func(p *catalog.Project) { p.Labels = map[string]string{"team": "guest"} }), []catalog.AccessBindingSpec{projects, hub}, []catalog.AccessBindingSpec{nothing, owner, allAdmin}},
		"labels of a new one":    {nil, projectOf(nil), []catalog.AccessBindingSpec{projects}, []catalog.AccessBindingSpec{nothing, owner}},
		"a namespace less":       {limited(nil), limited(ns(syncpolicy.AllowList{"shop"})), []catalog.AccessBindingSpec{nothing}, nil},
		"a namespace within":     {limited(nil), limited(ns(syncpolicy.AllowList{"shop", "shop-a"})), []catalog.AccessBindingSpec{nothing}, nil},
		"a namespace more":       {limited(nil), limited(ns(syncpolicy.AllowList{"shop", "kube-system"})), []catalog.AccessBindingSpec{allAdmin, projects}, []catalog.AccessBindingSpec{nothing, owner, keeper, editAll}},
		"a wider pattern":        {limited(nil), limited(ns(syncpolicy.AllowList{"shop-**"})), []catalog.AccessBindingSpec{allAdmin}, []catalog.AccessBindingSpec{nothing}},
		"all namespaces":         {limited(nil), limited(ns(nil)), []catalog.AccessBindingSpec{hub}, []catalog.AccessBindingSpec{nothing, owner}},
		"another kind":           {limited(nil), limited(func(s *catalog.ProjectSpec) { s.Limits.ClusterScopedKinds = syncpolicy.AllowList{"Namespace"} }), []catalog.AccessBindingSpec{allAdmin}, []catalog.AccessBindingSpec{nothing, owner}},
		"another account":        {limited(nil), limited(func(s *catalog.ProjectSpec) { s.Limits.ServiceAccounts = nil }), []catalog.AccessBindingSpec{allAdmin}, []catalog.AccessBindingSpec{nothing, owner}},
		"another cluster":        {limited(nil), limited(func(s *catalog.ProjectSpec) { s.Limits.Clusters = syncpolicy.AllowList{"*"} }), []catalog.AccessBindingSpec{allAdmin}, []catalog.AccessBindingSpec{nothing, owner}},
		"another repository":     {limited(nil), limited(func(s *catalog.ProjectSpec) { s.Limits.Repositories = syncpolicy.AllowList{"**"} }), []catalog.AccessBindingSpec{projects}, []catalog.AccessBindingSpec{nothing, owner, allAdmin}},
		"a lower quota":          {limited(nil), limited(func(s *catalog.ProjectSpec) { s.Quotas.Services = new(int32(1)) }), []catalog.AccessBindingSpec{nothing}, nil},
		"a higher quota":         {limited(nil), limited(func(s *catalog.ProjectSpec) { s.Quotas.Services = new(int32(6)) }), []catalog.AccessBindingSpec{editAll, projects}, []catalog.AccessBindingSpec{nothing, owner}},
		"no quota":               {limited(nil), limited(func(s *catalog.ProjectSpec) { s.Quotas.Repositories = nil }), []catalog.AccessBindingSpec{editAll}, []catalog.AccessBindingSpec{nothing, owner}},
		"limits where none were": {projectOf(nil), limited(nil), []catalog.AccessBindingSpec{nothing}, nil},
		"a removed limited one":  {limited(nil), nil, []catalog.AccessBindingSpec{hub}, []catalog.AccessBindingSpec{nothing, owner}},
	} {
		if len(test.may)+len(test.mayNot) == 0 {
			t.Errorf("%s: tests nothing", name)
		}
		for _, held := range test.may {
			if err := b.rights(planner, held).MayChangeProject(test.current, test.next); err != nil {
				t.Errorf("%s with %+v: %v", name, held, err)
			}
		}
		for _, held := range test.mayNot {
			err := b.rights(planner, held).MayChangeProject(test.current, test.next)
			if _, ok := errors.AsType[*authz.EscalationError](err); !ok {
				t.Errorf("%s with %+v: got %v, want an EscalationError", name, held, err)
			}
		}
	}
}

// TestSecEveryQuotaIsDecided removes each quota that a project can have.
func TestSecEveryQuotaIsDecided(t *testing.T) {
	t.Parallel()
	b := fleet()
	b.roles["planner"] = catalog.RoleSpec{Permissions: []catalog.Permissible{{Verbs: []string{"*"}, Resources: []string{"projects"}}}}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[catalog.ProjectQuotas]()) {
		from := projectOf(nil)
		quota := reflect.ValueOf(&from.Spec.Quotas).Elem().Field(i)
		quota.Set(reflect.New(quota.Type().Elem()))
		if b.rights(planner).MayChangeProject(from, projectOf(nil)) == nil {
			t.Errorf("somebody who holds nothing may remove the quota %s", field.Name)
		}
	}
}

var planner = catalog.AccessBindingSpec{Role: "planner", Hub: true}

// TestSecSharesNeverOfferWhatIsNotHeld draws shares of the project stall before and after a change
// by a person: each project is offered only the earlier offers, or rights that the person holds.
func TestSecSharesNeverOfferWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	b := fleet()
	selection := func(names ...string) *rapid.Generator[catalog.Selection] {
		return rapid.Custom(func(t *rapid.T) catalog.Selection {
			if rapid.IntRange(0, 4).Draw(t, "all") == 0 {
				return catalog.Selection{All: true}
			}
			return catalog.Selection{Names: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID[string]).Draw(t, "names")}
		})
	}
	share := rapid.Custom(func(t *rapid.T) catalog.ProjectShare {
		s := catalog.ProjectShare{Projects: selection("guest", "mine", "other").Draw(t, "projects")}
		if rapid.Bool().Draw(t, "kind") {
			s.Clusters = selection("one", "two").Draw(t, "clusters")
		} else {
			s.Repositories = selection("charts", "deploy").Draw(t, "repositories")
		}
		return s
	})
	offers := func(p *catalog.Project, with, what string, kind func(catalog.ProjectShare) catalog.Selection) bool {
		has := func(s catalog.Selection, name string) bool { return s.All || slices.Contains(s.Names, name) }
		return slices.ContainsFunc(p.Spec.Shares, func(s catalog.ProjectShare) bool { return has(s.Projects, with) && has(kind(s), what) })
	}
	rapid.Check(t, func(t *rapid.T) {
		held := rapid.SliceOfN(rapid.Custom(drawSpec), 0, 3).Draw(t, "held")
		before := sharing(rapid.SliceOfN(share, 0, 3).Draw(t, "before")...)
		after := sharing(rapid.SliceOfN(share, 0, 3).Draw(t, "after")...)
		rights := b.rights(held...)
		if rights.MayChangeProject(before, after) != nil {
			return
		}
		for _, with := range []string{"guest", "mine", "other", "new"} {
			for _, name := range []string{"one", "two", "new"} {
				kind := func(s catalog.ProjectShare) catalog.Selection { return s.Clusters }
				cluster := authz.OfCluster(&catalog.Cluster{Metadata: catalog.Metadata{Name: "stall." + name}})
				if known, ok := b.clusters["stall."+name]; ok {
					cluster = authz.OfCluster(known) // its labels count
				}
				create := catalog.Permission{Verb: "create", Resource: "services"}
				if offers(after, with, name, kind) && !offers(before, with, name, kind) && !rights.Allows(create, cluster) {
					t.Fatalf("a holder of %+v shares cluster %s with %s: from %+v to %+v", held, name, with, before.Spec, after.Spec)
				}
			}
			for _, name := range []string{"charts", "deploy", "new"} {
				kind := func(s catalog.ProjectShare) catalog.Selection { return s.Repositories }
				use := catalog.Permission{Verb: "use", Resource: "repositories"}
				if offers(after, with, name, kind) && !offers(before, with, name, kind) && !rights.Allows(use, authz.OfRepository("stall."+name)) {
					t.Fatalf("a holder of %+v shares repository %s with %s: from %+v to %+v", held, name, with, before.Spec, after.Spec)
				}
			}
		}
	})
}
