// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// limits are limits of each kind.
func limits() []catalog.TokenLimit {
	return []catalog.TokenLimit{
		{}, // settles to everything
		{Role: catalog.RoleViewer},
		{Role: "syncer"},
		{Role: "gone"},
		{Role: catalog.RoleEditor, Projects: stall},
		{Projects: stall},
		{Role: catalog.RoleOperator, Clusters: one},
		{Role: catalog.RoleAdmin, Clusters: prod},
		{Role: catalog.RoleAdmin, Clusters: catalog.ClusterSelection{All: true}},
		{Role: catalog.RoleAdmin, Services: []string{"shop@one", "stall.app@stall.one"}},
		{Role: catalog.RoleEditor, Repositories: []string{"deploy"}, Services: []string{"web@two"}},
	}
}

// owners are the bindings of owners of each kind.
func owners() [][]catalog.AccessBindingSpec {
	return [][]catalog.AccessBindingSpec{
		{},
		{{Role: catalog.RoleAdmin, Hub: true}},
		{{Role: catalog.RoleViewer, Hub: true}, {Role: catalog.RoleEditor, Projects: stall}},
		{{Role: catalog.RoleOperator, Clusters: one, Rules: inShop}, {Role: "syncer", Clusters: prod}},
		{{Role: catalog.RoleAdmin, Services: []string{"shop@one"}}, {ClusterGroups: []string{"night"}, Clusters: one}},
		{{Role: catalog.RoleEditor, Projects: catalog.ProjectScope{All: true}, Repositories: []string{"deploy"}}},
	}
}

var objects = []string{
	"hub", "cluster one", "cluster two", "cluster stall.one", "everything one", "project stall", "project default", "service shop@one",
	"service web@one", "service shop@two", "service web@two", "service stall.app@stall.one", "service stall.far@one", "service guest.app@stall.one",
	"repository deploy", "repository stall.deploy",
}

// TestSecLimitsOnlyTakeAway compares the rights with each limit of each owner with the definition:
// requests that the bindings allow, and a binding of the limit would allow, too.
func TestSecLimitsOnlyTakeAway(t *testing.T) {
	t.Parallel()
	b := fleet()
	for i, bindings := range owners() {
		full := b.rights(bindings...)
		for j, raw := range limits() {
			spec := raw.Settled()
			limited := full.Within(authz.NewLimit(b, spec, time.Time{}))
			ceiling := b.rights(spec.Binding(time.Time{}))
			for _, p := range catalog.Permissions() {
				filter, scope := limited.Filter(p), limited.ScopeOf(p)
				for _, name := range objects {
					o := b.object(name)
					want := full.Allows(p, o) && ceiling.Allows(p, o)
					if got := limited.Allows(p, o); got != want {
						t.Errorf("owner %d, limit %d (%s): %s of %s: got %t, want %t", i, j, spec, p, name, got, want)
					}
					if got := filter(o); got != want {
						t.Errorf("owner %d, limit %d (%s): filtered %s of %s: got %t, want %t", i, j, spec, p, name, got, want)
					}
					if want && o.Service != "" && o.Service != "*" && !isIn(scope, o) {
						t.Errorf("owner %d, limit %d (%s): the scope of %s leaves out %s", i, j, spec, p, name)
					}
				}
				if limited.HoldsEverywhere(p) && (!full.HoldsEverywhere(p) || !ceiling.HoldsEverywhere(p)) {
					t.Errorf("owner %d, limit %d (%s): holds %s everywhere", i, j, spec, p)
				}
			}
			checkGroups(t, b, full, limited, ceiling, fmt.Sprintf("owner %d, limit %d (%s)", i, j, spec))
			if limited.Equal(full) {
				t.Errorf("owner %d, limit %d: equal to the rights without the limit", i, j)
			}
			if !limited.Equal(full.Within(authz.NewLimit(b, spec, time.Time{}))) {
				t.Errorf("owner %d, limit %d: not equal to itself", i, j)
			}
		}
	}
}

func isIn(scope authz.Scope, o authz.Object) bool {
	return scope.Everything || slices.Contains(scope.Projects, o.Project) || slices.Contains(scope.Services, o.Service) ||
		slices.ContainsFunc(scope.Clusters, func(s catalog.ClusterSelection) bool { return s.Covers(o.Cluster) })
}

// rank orders the groups that roles have in clusters.
var rank = map[string]int{"leat:viewers": 1, "leat:operators": 2, "leat:admins": 3}

// checkGroups compares the groups in each cluster: the highest is the lower one of the two sides.
func checkGroups(t *testing.T, b book, full, limited, ceiling *authz.Rights, name string) {
	t.Helper()
	for _, cluster := range b.clusters {
		reaches := func(g authz.Grant) bool { return g.Reaches(cluster) }
		highest := func(r *authz.Rights) (top int, others []string) {
			for _, group := range authz.ClusterGroups(r.Grants(), reaches) {
				if top = max(top, rank[group]); rank[group] == 0 {
					others = append(others, group)
				}
			}
			return top, others
		}
		have, own := highest(full)
		limit, _ := highest(ceiling)
		got, others := highest(limited)
		if got != min(have, limit) {
			t.Errorf("%s in cluster %s: got groups of rank %d, want %d", name, cluster.Name, got, min(have, limit))
		}
		if len(others) > 0 && (limit < 3 || !slices.Equal(others, own)) {
			t.Errorf("%s in cluster %s: got the groups %v, which only an administrator's limit leaves", name, cluster.Name, others)
		}
	}
}

// TestSecLimitsBoundWhatIsGiven gives bindings by rights with limits: both sides must hold them.
func TestSecLimitsBoundWhatIsGiven(t *testing.T) {
	t.Parallel()
	b, ends := fleet(), time.Now().Add(time.Hour)
	given := []catalog.AccessBindingSpec{{Role: catalog.RoleViewer, Hub: true}}
	for _, specs := range owners() {
		given = append(given, specs...)
	}
	for _, limit := range limits() {
		given = append(given, limit.Settled().Binding(ends))
	}
	for i, bindings := range owners() {
		full := b.rights(bindings...)
		for j, raw := range limits() {
			spec := raw.Settled()
			limited, ceiling := full.Within(authz.NewLimit(b, spec, ends)), b.rights(spec.Binding(ends))
			for k, binding := range given {
				role, _ := b.Role(binding.Role)
				allowed := limited.MayGive(binding, role) == nil
				if allowed && (full.MayGive(binding, role) != nil || ceiling.MayGive(binding, role) != nil) {
					t.Errorf("owner %d, limit %d (%s): gives binding %d, which one side does not hold", i, j, spec, k)
				}
				if allowed && binding.ExpiresAt.IsZero() {
					t.Errorf("owner %d, limit %d (%s): gives binding %d for longer than the token lives", i, j, spec, k)
				}
			}
			if limited.MayDefine(catalog.RoleSpec{ClusterRole: catalog.RoleViewer}) == nil {
				t.Errorf("owner %d, limit %d (%s): defines a role that outlives the token", i, j, spec)
			}
		}
	}
}

// TestMayIssue has tokens made with tokens.
func TestMayIssue(t *testing.T) {
	t.Parallel()
	b, now := fleet(), time.Now()
	ends := now.Add(24 * time.Hour)
	admin, nobody := b.rights(catalog.AccessBindingSpec{Role: catalog.RoleAdmin, Hub: true}), b.rights()
	stallEditor := b.rights(catalog.AccessBindingSpec{Role: catalog.RoleEditor, Projects: stall})
	limit := func(spec catalog.TokenLimit, ends time.Time) *authz.Limit {
		return new(authz.NewLimit(b, spec.Settled(), ends))
	}
	inStall := *limit(catalog.TokenLimit{Role: catalog.RoleEditor, Projects: stall}, ends)
	for name, c := range map[string]struct {
		maker, owner *authz.Rights
		limit        *authz.Limit
		isOwn, want  bool
	}{
		"a full one for oneself":                     {maker: admin, owner: admin, isOwn: true, want: true},
		"a full one by somebody without rights":      {maker: nobody, owner: nobody, isOwn: true, want: true},
		"a full one for somebody with less":          {maker: admin, owner: stallEditor, want: true},
		"a full one for somebody with more":          {maker: stallEditor, owner: admin},
		"a narrow one for somebody with more":        {maker: stallEditor, owner: admin, limit: limit(catalog.TokenLimit{Role: catalog.RoleViewer, Projects: stall}, ends), want: true},
		"too wide a one for somebody with more":      {maker: stallEditor, owner: admin, limit: limit(catalog.TokenLimit{Role: catalog.RoleViewer}, ends)},
		"a full one with a narrow one":               {maker: admin.Within(inStall), owner: admin, isOwn: true},
		"the same with a narrow one":                 {maker: admin.Within(inStall), owner: admin, isOwn: true, limit: &inStall, want: true},
		"less with a narrow one":                     {maker: admin.Within(inStall), owner: admin, isOwn: true, limit: limit(catalog.TokenLimit{Role: catalog.RoleViewer, Services: []string{"stall.app@stall.one"}}, ends), want: true},
		"a higher role with a narrow one":            {maker: admin.Within(inStall), owner: admin, isOwn: true, limit: limit(catalog.TokenLimit{Projects: stall}, ends)},
		"a wider scope with a narrow one":            {maker: admin.Within(inStall), owner: admin, isOwn: true, limit: limit(catalog.TokenLimit{Role: catalog.RoleViewer, Clusters: one}, ends)},
		"a longer life with a narrow one":            {maker: admin.Within(inStall), owner: admin, isOwn: true, limit: limit(catalog.TokenLimit{Role: catalog.RoleViewer, Projects: stall}, ends.Add(time.Second))},
		"no end with a narrow one":                   {maker: admin.Within(inStall), owner: admin, isOwn: true, limit: limit(catalog.TokenLimit{Role: catalog.RoleViewer, Projects: stall}, time.Time{})},
		"for another one with a narrow one":          {maker: admin.Within(inStall), owner: stallEditor},
		"a narrow one for another with a narrow one": {maker: admin.Within(inStall), owner: stallEditor, limit: &inStall, want: true},
	} {
		err := c.maker.MayIssue(c.owner, c.limit, c.isOwn)
		if _, isEscalation := errors.AsType[*authz.EscalationError](err); (err == nil) != c.want || err != nil && !isEscalation {
			t.Errorf("%s: got %v, want it to be allowed: %t", name, err, c.want)
		}
	}
}
