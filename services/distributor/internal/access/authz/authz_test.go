// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// book is a directory of what tests put into it.
type book struct {
	clusters map[string]*catalog.Cluster
	services map[string]*catalog.Service
	roles    map[catalog.RoleName]catalog.RoleSpec
}

func (b book) Cluster(name string) (*catalog.Cluster, bool) {
	c, ok := b.clusters[name]
	return c, ok
}

func (b book) Service(name string) (*catalog.Service, bool) {
	s, ok := b.services[name]
	return s, ok
}

func (b book) Role(name catalog.RoleName) (catalog.RoleSpec, bool) {
	if spec, ok := catalog.BuiltinRole(name); ok {
		return spec, true
	}
	spec, ok := b.roles[name]
	return spec, ok
}

// fleet has the clusters one (stage=dev) and two (stage=prod), and on each the services shop and web,
// in namespaces of their names. The project stall has a cluster one of its own with a service app, and
// services of the projects stall and guest run in each other's clusters and in the first one.
func fleet() book {
	b := book{clusters: map[string]*catalog.Cluster{}, services: map[string]*catalog.Service{}, roles: map[catalog.RoleName]catalog.RoleSpec{
		"syncer": {Permissions: []catalog.Permissible{{Verbs: []string{"get", "sync"}, Resources: []string{"services"}}}},
	}}
	for name, stage := range map[string]string{"one": "dev", "two": "prod"} {
		b.clusters[name] = &catalog.Cluster{Metadata: catalog.Metadata{Name: name, Labels: map[string]string{"stage": stage}}}
		for _, app := range []string{"shop", "web"} {
			service := &catalog.Service{Metadata: catalog.Metadata{Name: objectname.ServicePath(app, name)}, Spec: catalog.ServiceSpec{
				Cluster: name, Options: &syncpolicy.Options{Namespace: app},
			}}
			b.services[service.Name] = service
		}
	}
	b.clusters["stall.one"] = &catalog.Cluster{Metadata: catalog.Metadata{Name: "stall.one", Labels: map[string]string{"stage": "dev"}}}
	for name, cluster := range map[string]string{"stall.app": "stall.one", "stall.far": "one", "guest.app": "stall.one"} {
		name = objectname.ServicePath(name, cluster)
		b.services[name] = &catalog.Service{Metadata: catalog.Metadata{Name: name}, Spec: catalog.ServiceSpec{
			Cluster: cluster, Options: &syncpolicy.Options{Namespace: "shop"},
		}}
	}
	return b
}

// object returns the object of a text: "cluster one", "service shop@one", "repository deploy", "hub".
func (b book) object(text string) authz.Object {
	kind, name, _ := strings.Cut(text, " ")
	switch kind {
	case "cluster":
		return authz.ObjectOf(b, b.clusters[name])
	case "project":
		return authz.OfProject(name)
	case "everything":
		return authz.OfEveryService(b.clusters[name])
	case "service":
		return authz.ObjectOf(b, b.services[name])
	case "repository":
		return authz.ObjectOf(b, &catalog.Repository{Metadata: catalog.Metadata{Name: name}})
	}
	return authz.Object{}
}

func (b book) rights(spec ...catalog.AccessBindingSpec) *authz.Rights {
	bindings := make([]*catalog.AccessBinding, len(spec))
	for i, s := range spec {
		s.Users = []string{"ada"}
		bindings[i] = &catalog.AccessBinding{Metadata: catalog.Metadata{Name: fmt.Sprint("b", i)}, Spec: s}
	}
	return authz.NewRights(b, "ada", nil, bindings, time.Now())
}

func permissionOf(text string) catalog.Permission {
	verb, resource, _ := strings.Cut(text, " ")
	return catalog.Permission{Verb: verb, Resource: resource}
}

var (
	one    = catalog.ClusterSelection{Names: []string{"one"}}
	prod   = catalog.ClusterSelection{Labels: &catalog.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}}
	inShop = []accessrule.Rule{{Namespaces: []string{"shop"}}}
	stall  = catalog.ProjectScope{Names: []string{"stall"}}
)

func TestDecisions(t *testing.T) {
	t.Parallel()
	b := fleet()
	for name, test := range map[string]struct {
		spec     catalog.AccessBindingSpec
		yes, not []string // "verb resource: object"
	}{
		"nothing": {catalog.AccessBindingSpec{Clusters: one}, []string{"get clusters: cluster one"}, []string{"get services: service shop@one", "get clusters: cluster two"}},
		"viewer of a cluster": {
			catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleViewer},
			[]string{"get clusters: cluster one", "get services: service shop@one", "list revisions: service shop@one", "get services/inventory: cluster one", "watch services/events: cluster one"},
			[]string{
				"sync services: service shop@one", "get services: service shop@two", "get services/diff: cluster one", "get services/plan: service shop@one",
				"get repositories: repository deploy", "get users: hub", "create services: service shop@one", "create jointokens: cluster one",
			},
		},
		"operator by label": {
			catalog.AccessBindingSpec{Clusters: prod, Role: catalog.RoleOperator},
			[]string{"sync services: service web@two", "pause services: service web@two", "preview services: service web@two", "get services/diff: cluster two"},
			[]string{"sync services: service web@one", "update services: service web@two", "delete services: service web@two", "update clusters: cluster two"},
		},
		"editor of a service and its repository": {
			catalog.AccessBindingSpec{Services: []string{"shop@one"}, Repositories: []string{"deploy"}, Role: catalog.RoleEditor},
			[]string{"update services: service shop@one", "use repositories: repository deploy", "update repositories: repository deploy"},
			[]string{"get services: service web@one", "get clusters: cluster one", "get repositories: repository other", "get services/inventory: cluster one"},
		},
		"admin of a cluster": {
			catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleAdmin},
			[]string{"update clusters: cluster one", "delete services: service shop@one", "revoke clusters: cluster one", "create jointokens: cluster one"},
			[]string{"create users: hub", "create clusters: cluster two", "list recordings: hub", "create roles: hub", "get repositories: repository deploy"},
		},
		"viewer of the hub": {
			catalog.AccessBindingSpec{Hub: true, Role: catalog.RoleViewer},
			[]string{"get repositories: repository deploy", "get services: service web@two", "list roles: hub"},
			[]string{"list users: hub", "list accessbindings: hub", "list tokens: hub", "list recordings: hub", "use repositories: repository deploy"},
		},
		"narrowed to a namespace": {
			catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleAdmin, Rules: inShop},
			[]string{"delete services: service shop@one", "get clusters: cluster one"},
			[]string{"get services: service web@one", "update clusters: cluster one", "get services/inventory: cluster one", "create jointokens: cluster one"},
		},
		"narrowed to resources of the hub": {
			catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleOperator, Rules: []accessrule.Rule{{Verbs: []string{"get", "sync"}, APIGroups: []string{"leat.dev"}, Resources: []string{"services"}}}},
			[]string{"sync services: service web@one", "get services: service web@one"},
			[]string{"pause services: service web@one", "get services/diff: cluster one"},
		},
		"narrowed to pods": {
			catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleOperator, Rules: []accessrule.Rule{{Resources: []string{"pods"}}}},
			[]string{"get clusters: cluster one"},
			[]string{"get services: service web@one", "sync services: service web@one"},
		},
		"a role of one's own": {
			catalog.AccessBindingSpec{Clusters: one, Role: "syncer"},
			[]string{"sync services: service web@one", "get clusters: cluster one"},
			[]string{"list services: service web@one", "pause services: service web@one"},
		},
		"admin of a project": {
			catalog.AccessBindingSpec{Projects: stall, Role: catalog.RoleAdmin},
			[]string{
				"update clusters: cluster stall.one", "delete services: service stall.app@stall.one", "delete services: service stall.far@one",
				"use repositories: repository stall.deploy", "create services: project stall",
			},
			[]string{
				"get services: service guest.app@stall.one", "get services: everything stall.one", "get clusters: cluster one", "get services: service shop@one",
				"get repositories: repository deploy", "get users: hub", "update projects: hub", "create services: project guest",
			},
		},
		"viewer of all projects": {
			catalog.AccessBindingSpec{Projects: catalog.ProjectScope{All: true}, Role: catalog.RoleViewer},
			[]string{"get services: service guest.app@stall.one", "get services: everything one", "get clusters: cluster one", "get repositories: repository deploy"},
			[]string{"get projects: hub", "get roles: hub", "sync services: service guest.app@stall.one"},
		},
		"editor of the project default": {
			catalog.AccessBindingSpec{Projects: catalog.ProjectScope{Names: []string{"default"}}, Role: catalog.RoleEditor},
			[]string{"update services: service shop@one", "update repositories: repository deploy"},
			[]string{"get services: service stall.far@one", "get services: everything one", "get clusters: cluster stall.one"},
		},
		"a service of any cluster": {
			catalog.AccessBindingSpec{Services: []string{"shop", "guest.app"}, Role: catalog.RoleEditor},
			[]string{"update services: service shop@one", "update services: service shop@two", "get services: service guest.app@stall.one"},
			[]string{"get services: service web@one", "get clusters: cluster one", "get services: service stall.app@stall.one", "get services/inventory: cluster one"},
		},
		"a role that does not exist": {catalog.AccessBindingSpec{Clusters: one, Role: "gone"}, nil, []string{"get services: service web@one"}},
		"ended":                      {catalog.AccessBindingSpec{Hub: true, Role: catalog.RoleAdmin, ExpiresAt: time.Now().Add(-time.Second)}, nil, []string{"get clusters: cluster one", "get users: hub"}},
	} {
		rights := b.rights(test.spec)
		for want, list := range map[bool][]string{true: test.yes, false: test.not} {
			for _, text := range list {
				permission, object, _ := strings.Cut(text, ": ")
				p, o := permissionOf(permission), b.object(object)
				if got := rights.Allows(p, o); got != want {
					t.Errorf("%s: %s: got %v, want %v", name, text, got, want)
				}
				if got := rights.Filter(p)(o); got != want {
					t.Errorf("%s: %s by the filter: got %v, want %v", name, text, got, want)
				}
			}
		}
	}
}

// TestRolesIncludeEachOther compares the built-in roles.
func TestRolesIncludeEachOther(t *testing.T) {
	t.Parallel()
	roles := []catalog.RoleName{catalog.RoleNone, catalog.RoleViewer, catalog.RoleOperator, catalog.RoleEditor, catalog.RoleAdmin}
	held := func(name catalog.RoleName) (count int) {
		role, _ := catalog.BuiltinRole(name)
		for _, p := range catalog.Permissions() {
			if role.Holds(p) {
				count++
			}
		}
		return count
	}
	for i, name := range roles[1:] {
		lesser, _ := catalog.BuiltinRole(roles[i])
		greater, _ := catalog.BuiltinRole(name)
		for _, p := range catalog.Permissions() {
			if lesser.Holds(p) && !greater.Holds(p) {
				t.Errorf("%s holds %s, and %s does not", roles[i], p, name)
			}
		}
		if held(name) <= held(roles[i]) {
			t.Errorf("%s holds no more than %s", name, roles[i])
		}
	}
	if held(catalog.RoleAdmin) != len(catalog.Permissions()) {
		t.Error("admin does not hold everything")
	}
}

// TestSecNobodyGivesWhatTheyLack has people make bindings.
func TestSecNobodyGivesWhatTheyLack(t *testing.T) {
	t.Parallel()
	b := fleet()
	admin := catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleAdmin}
	prodAdmin := catalog.AccessBindingSpec{Clusters: prod, Role: catalog.RoleAdmin}
	soon, late := time.Now().Add(time.Hour), time.Now().Add(48*time.Hour)
	both := &catalog.LabelSelector{MatchLabels: map[string]string{"stage": "prod", "region": "eu"}}
	for name, test := range map[string]struct {
		holds []catalog.AccessBindingSpec
		gives catalog.AccessBindingSpec
		want  bool
	}{
		"a project of theirs":               {[]catalog.AccessBindingSpec{{Projects: stall, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Projects: stall, Role: catalog.RoleEditor}, true},
		"what is in a project of theirs":    {[]catalog.AccessBindingSpec{{Projects: stall, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Services: []string{"stall.far@one", "stall.new"}, Repositories: []string{"stall.x"}, Role: catalog.RoleEditor}, true},
		"everything in all projects":        {[]catalog.AccessBindingSpec{{Projects: catalog.ProjectScope{All: true}, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{All: true}, Role: catalog.RoleAdmin}, true},
		"guests in a cluster of theirs":     {[]catalog.AccessBindingSpec{{Projects: stall, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Names: []string{"stall.one"}}, Role: catalog.RoleViewer}, false},
		"another project":                   {[]catalog.AccessBindingSpec{{Projects: stall, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Projects: catalog.ProjectScope{Names: []string{"guest"}}, Role: catalog.RoleViewer}, false},
		"a project for its clusters":        {[]catalog.AccessBindingSpec{{Clusters: catalog.ClusterSelection{All: true}, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Projects: stall, Role: catalog.RoleViewer}, false},
		"the hub for all projects":          {[]catalog.AccessBindingSpec{{Projects: catalog.ProjectScope{All: true}, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Hub: true, Role: catalog.RoleViewer}, false},
		"the same":                          {[]catalog.AccessBindingSpec{admin}, admin, true},
		"less":                              {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleViewer}, true},
		"narrower":                          {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleAdmin, Rules: inShop}, true},
		"a service of the cluster":          {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Services: []string{"web@one"}, Role: catalog.RoleEditor}, true},
		"another role of theirs":            {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: one, Role: "syncer"}, true},
		"a group in the cluster":            {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: one, ClusterGroups: []string{"x"}}, true},
		"more conditions":                   {[]catalog.AccessBindingSpec{prodAdmin}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Labels: both}, Role: catalog.RoleAdmin}, true},
		"a cluster that the labels select":  {[]catalog.AccessBindingSpec{prodAdmin}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Names: []string{"two"}}, Role: catalog.RoleAdmin}, true},
		"a longer time for ever":            {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleAdmin, ExpiresAt: late}, true},
		"two bindings together":             {[]catalog.AccessBindingSpec{{Clusters: one, Role: catalog.RoleOperator}, {Clusters: one, Role: "syncer"}}, catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleOperator}, true},
		"another cluster":                   {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Names: []string{"one", "two"}}, Role: catalog.RoleViewer}, false},
		"a cluster that does not exist yet": {[]catalog.AccessBindingSpec{prodAdmin}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Names: []string{"three"}}, Role: catalog.RoleViewer}, false},
		"all clusters":                      {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{All: true}, Role: catalog.RoleViewer}, false},
		"the hub":                           {[]catalog.AccessBindingSpec{{Clusters: catalog.ClusterSelection{All: true}, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Hub: true, Role: catalog.RoleViewer}, false},
		"fewer conditions":                  {[]catalog.AccessBindingSpec{{Clusters: catalog.ClusterSelection{Labels: both}, Role: catalog.RoleAdmin}}, prodAdmin, false},
		"labels for a name":                 {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Labels: &catalog.LabelSelector{MatchLabels: map[string]string{"stage": "dev"}}}, Role: catalog.RoleViewer}, false},
		"a higher role":                     {[]catalog.AccessBindingSpec{{Clusters: one, Role: catalog.RoleEditor}}, admin, false},
		"a group that they do not have":     {[]catalog.AccessBindingSpec{{Clusters: one, Role: catalog.RoleEditor}}, catalog.AccessBindingSpec{Clusters: one, ClusterGroups: []string{"x"}}, false},
		"without the rules":                 {[]catalog.AccessBindingSpec{{Clusters: one, Role: catalog.RoleAdmin, Rules: inShop}}, admin, false},
		"other rules":                       {[]catalog.AccessBindingSpec{{Clusters: one, Role: catalog.RoleAdmin, Rules: inShop}}, catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleViewer, Rules: []accessrule.Rule{{Namespaces: []string{"web"}}}}, false},
		"for longer":                        {[]catalog.AccessBindingSpec{{Clusters: one, Role: catalog.RoleAdmin, ExpiresAt: soon}}, admin, false},
		"for a longer time":                 {[]catalog.AccessBindingSpec{{Clusters: one, Role: catalog.RoleAdmin, ExpiresAt: soon}}, catalog.AccessBindingSpec{Clusters: one, Role: catalog.RoleAdmin, ExpiresAt: late}, false},
		"one of their services":             {[]catalog.AccessBindingSpec{{Services: []string{"web"}, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Services: []string{"web@two"}, Role: catalog.RoleEditor}, true},
		"a name, by all clusters":           {[]catalog.AccessBindingSpec{{Clusters: catalog.ClusterSelection{All: true}, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Services: []string{"web"}, Role: catalog.RoleEditor}, true},
		"a name, by one service":            {[]catalog.AccessBindingSpec{{Services: []string{"web@one", "web@two"}, Role: catalog.RoleAdmin}}, catalog.AccessBindingSpec{Services: []string{"web"}, Role: catalog.RoleEditor}, false},
		"a name, by one cluster":            {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Services: []string{"web"}, Role: catalog.RoleEditor}, false},
		"a name, by labels":                 {[]catalog.AccessBindingSpec{prodAdmin}, catalog.AccessBindingSpec{Services: []string{"web"}, Role: catalog.RoleEditor}, false},
		"a service of another cluster":      {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Services: []string{"web@two"}, Role: catalog.RoleViewer}, false},
		"a repository":                      {[]catalog.AccessBindingSpec{admin}, catalog.AccessBindingSpec{Clusters: one, Repositories: []string{"deploy"}, Role: catalog.RoleViewer}, false},
		"two halves of a scope":             {[]catalog.AccessBindingSpec{admin, {Clusters: prod, Role: catalog.RoleViewer}}, catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Names: []string{"one", "two"}}, Role: catalog.RoleOperator}, false},
	} {
		role, _ := b.Role(test.gives.Role)
		err := b.rights(test.holds...).MayGive(test.gives, role)
		if got := err == nil; got != test.want {
			t.Errorf("%s: got %v (%v), want %v", name, got, err, test.want)
		}
		var escalation *authz.EscalationError
		if err != nil && !errors.As(err, &escalation) {
			t.Errorf("%s: got %v, want an EscalationError", name, err)
		}
	}
}

// TestSecGivingNeverAddsAnything draws bindings: after a person has given one to themselves, they
// may do what they could do before, and nothing else.
func TestSecGivingNeverAddsAnything(t *testing.T) {
	t.Parallel()
	b := fleet()
	objects := []string{
		"hub", "cluster one", "cluster two", "service shop@one", "service web@one", "service shop@two", "service web@two", "repository deploy", "repository other",
		"cluster stall.one", "service stall.app@stall.one", "service stall.far@one", "service guest.app@stall.one", "repository stall.deploy", "project stall", "project guest",
	}
	spec := rapid.Custom(drawSpec)
	rapid.Check(t, func(t *rapid.T) {
		held := rapid.SliceOfN(spec, 0, 3).Draw(t, "held")
		given := spec.Draw(t, "given")
		before := b.rights(held...)
		role, _ := b.Role(given.Role)
		if before.MayGive(given, role) != nil {
			return
		}
		after := b.rights(append(slices.Clone(held), given)...)
		for _, name := range objects {
			o := b.object(name)
			for _, p := range catalog.Permissions() {
				if after.Allows(p, o) && !before.Allows(p, o) {
					t.Fatalf("by giving %+v, a holder of %+v obtains %s of %s", given, held, p, name)
				}
			}
			if o.Cluster == nil || o.Service != "" {
				continue
			}
			groups := func(r *authz.Rights) []string {
				return authz.ClusterGroups(r.Grants(), func(g authz.Grant) bool { return g.Reaches(&catalog.Cluster{Metadata: *o.Cluster}) })
			}
			for _, group := range groups(after) {
				if !slices.Contains(groups(before), group) && !slices.Contains(groups(before), "leat:admins") && group != "leat:viewers" {
					t.Fatalf("by giving %+v, a holder of %+v obtains the group %s in %s", given, held, group, name)
				}
			}
		}
	})
}

// TestFilterEqualsAllows draws bindings, and asks both about every service.
func TestFilterEqualsAllows(t *testing.T) {
	t.Parallel()
	b := fleet()
	spec := rapid.Custom(drawSpec)
	rapid.Check(t, func(t *rapid.T) {
		rights := b.rights(rapid.SliceOfN(spec, 0, 4).Draw(t, "held")...)
		p := rapid.SampledFrom(catalog.Permissions()).Draw(t, "permission")
		filter := rights.Filter(p)
		for _, name := range slices.Sorted(maps.Keys(b.services)) {
			for range 2 { // the second time from memory
				if got, want := filter(b.object("service "+name)), rights.Allows(p, b.object("service "+name)); got != want {
					t.Fatalf("%s of %s: the filter says %v, want %v", p, name, got, want)
				}
			}
		}
	})
}

func drawSpec(t *rapid.T) catalog.AccessBindingSpec {
	spec := catalog.AccessBindingSpec{
		Role: rapid.SampledFrom([]catalog.RoleName{"viewer", "operator", "editor", "admin", "syncer", ""}).Draw(t, "role"),
	}
	switch rapid.IntRange(0, 7).Draw(t, "scope") {
	case 0:
		spec.Hub = true
	case 1:
		spec.Clusters.All = true
	case 2:
		spec.Clusters.Labels = &catalog.LabelSelector{MatchLabels: map[string]string{"stage": rapid.SampledFrom([]string{"dev", "prod"}).Draw(t, "stage")}}
	case 3:
		spec.Services = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"shop@one", "web@one", "shop@two", "shop", "web", "stall.app@stall.one", "guest.app@stall.one", "guest.app"}), 1, 2, rapid.ID[string]).Draw(t, "services")
		spec.Repositories = rapid.SliceOfN(rapid.SampledFrom([]string{"deploy"}), 0, 1).Draw(t, "repositories")
	case 4:
		spec.Projects.All = true
	case 5:
		spec.Projects.Names = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"default", "stall", "guest"}), 1, 2, rapid.ID[string]).Draw(t, "projects")
	default:
		spec.Clusters.Names = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"one", "two", "stall.one"}), 1, 2, rapid.ID[string]).Draw(t, "names")
	}
	if rapid.Bool().Draw(t, "narrowed") {
		spec.Rules = []accessrule.Rule{rapid.SampledFrom([]accessrule.Rule{
			{Namespaces: []string{"shop"}},
			{Verbs: []string{"get", "list"}},
			{APIGroups: []string{"leat.dev"}, Resources: []string{"services", "services/*"}},
			{Paths: []string{"/metrics"}},
			{Verbs: []string{"get"}, Namespaces: []string{"shop", "web"}},
			{Resources: []string{"pods"}},
		}).Draw(t, "rule")}
	}
	return spec
}
