// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// parts are permissions that no call asks for on its own: they decide about a part of it.
var parts = map[catalog.Permission][]string{
	{Verb: catalog.VerbPause, Resource: catalog.ResourceServices}:   {"Apply of a service that changes paused alone"},
	{Verb: catalog.VerbConfirm, Resource: catalog.ResourceServices}: {"Apply of a service that changes sync.pruneConfirmation alone"},
	{Verb: catalog.VerbPause, Resource: catalog.ResourceRollouts}:   {"ControlRollout that pauses or resumes"},
	{Verb: catalog.VerbUse, Resource: catalog.ResourceConfigSets}: {
		"Apply of services, projects and sets of configuration, for a set that they list or refer to",
	},
	{Verb: catalog.VerbUse, Resource: catalog.ResourceRepositories}: {
		"Apply of services, global services, repositories, notifiers and fleet sources, for a repository that they name",
	},
	{Verb: catalog.VerbUse, Resource: catalog.ResourceBackends}: {
		"Apply of services and sets of configuration, for an entry of a back end that they refer to",
	},
}

// opened returns what each permission opens, in the order of the calls: calls by their options, and
// what a document, a watch or a part of a call needs.
func opened() map[catalog.Permission][]string {
	opens := map[catalog.Permission][]string{}
	for _, method := range allMethods() {
		access, _ := permission.Of(method)
		for _, row := range rowsOf(method) {
			needed := row.of(access)
			if p := (catalog.Permission{Verb: needed.Verb, Resource: needed.Resource}); p.Verb != "" && p.Resource != permission.Each {
				_, name, _ := strings.Cut(row.name, "/")
				opens[p] = append(opens[p], name)
			}
		}
	}
	for _, kind := range catalog.Kinds() {
		p := catalog.Permission{Verb: catalog.VerbWatch, Resource: catalog.ResourceOf(kind)}
		opens[p] = append(opens[p], "Watch, for "+p.Resource)
	}
	for p, calls := range parts {
		opens[p] = append(opens[p], calls...)
	}
	return opens
}

// place is a small fleet to ask about: the service app in the cluster one, from the repository demo.
type place struct{}

// Cluster implements authz.Directory.
func (place) Cluster(name string) (*catalog.Cluster, bool) {
	return &catalog.Cluster{Metadata: catalog.Metadata{Name: name}}, true
}

// Service implements authz.Directory.
func (place) Service(name string) (*catalog.Service, bool) {
	return &catalog.Service{Metadata: catalog.Metadata{Name: name}, Spec: catalog.ServiceSpec{Cluster: "one"}}, true
}

// Role implements authz.Directory.
func (place) Role(name catalog.RoleName) (catalog.RoleSpec, bool) { return catalog.BuiltinRole(name) }

// scopes are the kinds of scopes that a binding can have, each around the objects of the place.
func scopes() []catalog.AccessBindingSpec {
	return []catalog.AccessBindingSpec{
		{Services: []string{"app"}},
		{Repositories: []string{"demo"}},
		{Clusters: catalog.ClusterSelection{Names: []string{"one"}}},
		{Projects: catalog.ProjectScope{Names: []string{"default"}}},
		{Hub: true},
	}
}

// countsIn reports whether a permission gives anything in a binding with that scope.
func countsIn(scope catalog.AccessBindingSpec, p catalog.Permission) bool {
	holder := scope
	holder.Users, holder.Role = []string{"ada"}, catalog.RoleAdmin
	rights := authz.NewRights(place{}, "ada", nil, []*catalog.AccessBinding{{Spec: holder}}, time.Now())
	object := authz.Object{} // of the hub
	kind, _, _ := strings.Cut(p.Resource, "/")
	if isOfAgent(p) {
		kind = catalog.ResourceClusters
	}
	switch kind {
	case catalog.ResourceClusters, "jointokens":
		cluster, _ := place{}.Cluster("one")
		object = authz.OfCluster(cluster)
	case catalog.ResourceRepositories:
		object = authz.OfRepository("demo")
	case catalog.ResourceServices, "revisions":
		service, _ := place{}.Service("app")
		object = authz.ObjectOf(place{}, service)
	case catalog.ResourceConfigSets, catalog.ResourceGlobalServices, catalog.ResourceRollouts, catalog.ResourceFleetSources, catalog.ResourceImagePolicies, catalog.ResourceNotifiers,
		catalog.ResourceBootstraps:
		object = authz.OfProject("default")
	case catalog.ResourceBackends:
		if p.Verb == catalog.VerbUse {
			object = authz.OfProject("default") // the document's
		}
	case catalog.ResourceAccessBindings:
		object = authz.ObjectOf(place{}, &catalog.AccessBinding{Spec: scope})
	case catalog.ResourceAccessRequests:
		object = authz.ObjectOf(place{}, &catalog.AccessRequest{Spec: catalog.AccessRequestSpec{Access: scope}})
	case catalog.ResourceProjects:
		switch p.Verb {
		case catalog.VerbGet, catalog.VerbList, catalog.VerbWatch:
			object = authz.OfProject("default")
		}
	}
	return rights.Allows(p, object)
}

// isOfAgent reports whether a permission opens calls to agents alone, which are about a whole cluster.
func isOfAgent(p catalog.Permission) bool {
	isAsked := false
	for _, method := range allMethods() {
		access, _ := permission.Of(method)
		if access.Verb != p.Verb || access.Resource != p.Resource {
			continue
		}
		if method.Parent().Name() != "AgentService" {
			return false
		}
		isAsked = true
	}
	return isAsked
}

// tableOfPermissions is the part of docs/reference/rights.md for people who write a role of their
// own.
func tableOfPermissions() string {
	var page strings.Builder
	page.WriteString(`
## Permissions of a role

Each row is a permission that a document of ` + "`kind: Role`" + ` can hold: one of its ` + "`verbs`" + ` with one of its ` + "`resources`" + `; ` + "`*`" + ` stands for all.
It opens the calls of the third column.
The next four columns are the built-in roles that hold it.
The last five are the bindings in which it counts: of a single service, a repository, a cluster, a project, or the whole hub.
In other bindings it gives nothing.

The shares, limits and quotas of a project are parts of its document, so ` + "`update projects`" + ` changes them, in the whole hub alone, with these permissions besides:

| change of a project | needs |
|---|---|
| share a repository | ` + "`use repositories`" + ` for it |
| list a set of configuration, or refer to it | ` + "`use configsets`" + ` in its project, or in one's own if it is shared |
| share a set of configuration | ` + "`use configsets`" + ` in the whole project |
| share a cluster | the role ` + "`admin`" + ` for it, or for the project |
| loosen ` + "`limits.clusters`, `namespaces`, `clusterScopedKinds` or `serviceAccounts`" + ` | the role ` + "`admin`" + ` for all clusters |
| loosen ` + "`limits.repositories`" + `, or change labels | the role ` + "`admin`" + ` for all projects |
| raise ` + "`quotas.services`" + ` | ` + "`create services`" + ` for all projects |
| raise ` + "`quotas.repositories`" + ` | ` + "`create repositories`" + ` for all projects |

| verb | resource | opens | viewer | operator | editor | admin | service | repository | cluster | project | hub |
|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	opens := opened()
	for _, p := range catalog.Permissions() {
		fmt.Fprintf(&page, "| %s | %s | %s |", p.Verb, p.Resource, strings.Join(opens[p], "; "))
		for _, name := range []catalog.RoleName{catalog.RoleViewer, catalog.RoleOperator, catalog.RoleEditor, catalog.RoleAdmin} {
			role, _ := catalog.BuiltinRole(name)
			page.WriteString(mark(role.Holds(p)))
		}
		for _, scope := range scopes() {
			page.WriteString(mark(countsIn(scope, p)))
		}
		page.WriteString("\n")
	}
	return page.String()
}

func mark(holds bool) string {
	if holds {
		return " yes |"
	}
	return " |"
}
