// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package authz decides what a person may do. There is one model for calls to the hub, calls to
// agents and requests to clusters: bindings give people a role in a scope, and rules narrow a binding
// in all three.
//
// A decision is a pure function of the bindings that name a person, the roles that they give, the
// permission and the object. [Rights] are these bindings as of one moment; a caller that outlives the
// moment, such as a stream, asks for Rights again.
//
// The package decides nothing about who the person is, and does not look objects up but through the
// [Directory].
package authz

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Group is the API group that the rules of bindings know the hub's own resources by.
const Group = "leat.dev"

// clusterGroupPrefix begins the names of groups in clusters that bindings name, so that they cannot
// be groups of others.
const clusterGroupPrefix = "leat:group:"

// Directory finds what scopes name. Its methods may be called concurrently.
type Directory interface {
	// Cluster returns a cluster by its name.
	Cluster(name string) (*catalog.Cluster, bool)
	// Role returns what a role of that name holds, built-in ones included.
	Role(name catalog.RoleName) (catalog.RoleSpec, bool)
}

// Grant is one reason why a person may do something: a binding that names them, or membership in
// leat:admins.
type Grant struct {
	// Binding is nil for membership in leat:admins.
	Binding *catalog.AccessBinding
	// Subjects are the subjects of its binding: "user:NAME" and "group:NAME".
	Subjects []string
	role     catalog.RoleSpec
	// limit bounds the grant by what the person's token may give: a permission needs both. Nil: the
	// token has no limit.
	limit *Grant
}

// AdminGrant returns the grant of the members of leat:admins: everything.
func AdminGrant() Grant {
	role, _ := catalog.BuiltinRole(catalog.RoleAdmin)
	return Grant{Subjects: Subjects(nil, []string{catalog.AdminGroup}), role: role}
}

// NewGrant returns the grant of a binding. A binding whose role does not exist gives its cluster
// groups alone.
func NewGrant(directory Directory, binding *catalog.AccessBinding, subjects []string) Grant {
	role, _ := directory.Role(binding.Spec.Role)
	return Grant{Binding: binding, Subjects: subjects, role: role}
}

// Name returns the binding's name, or "" for membership in leat:admins.
func (g Grant) Name() string {
	if g.Binding == nil {
		return ""
	}
	return g.Binding.Name
}

// Role returns the name of the role that it gives.
func (g Grant) Role() catalog.RoleName {
	if g.Binding == nil {
		return catalog.RoleAdmin
	}
	return g.Binding.Spec.Role
}

// Rules returns the rules that narrow it; nil if nothing does.
func (g Grant) Rules() []accessrule.Rule {
	if g.Binding == nil {
		return nil
	}
	return g.Binding.Spec.Rules
}

// Ends returns when it, or its limit, ends; zero: never.
func (g Grant) Ends() time.Time {
	var ends time.Time
	if g.Binding != nil {
		ends = g.Binding.Spec.ExpiresAt
	}
	if g.limit != nil && !outlives(g.limit.Ends(), ends) {
		return g.limit.Ends()
	}
	return ends
}

// Groups returns the groups that it gives in the clusters of its scope. Without any, it gives no
// access to clusters.
func (g Grant) Groups() []string {
	if g.limit != nil {
		return commonGroups(g.ownGroups(), g.limit.Groups())
	}
	return g.ownGroups()
}

// ownGroups returns the groups that it gives without a limit.
func (g Grant) ownGroups() []string {
	var groups []string
	switch g.role.ClusterRole {
	case catalog.RoleViewer:
		groups = append(groups, "leat:viewers")
	case catalog.RoleOperator, catalog.RoleEditor:
		groups = append(groups, "leat:operators")
	case catalog.RoleAdmin:
		groups = append(groups, catalog.AdminGroup)
	case catalog.RoleNone:
	}
	if g.Binding == nil {
		return groups
	}
	for _, name := range g.Binding.Spec.ClusterGroups {
		groups = append(groups, clusterGroupPrefix+name)
	}
	return groups
}

// IsUnconditional reports whether it allows every request that its role allows.
func (g Grant) IsUnconditional() bool { return len(g.Rules()) == 0 }

// Selects reports whether the rules of the grant select a request to a cluster.
func (g Grant) Selects(q accessrule.Request) bool {
	return g.IsUnconditional() || accessrule.Choose(g.Rules(), q)
}

// Reaches reports whether it lets people reach a cluster's API.
func (g Grant) Reaches(cluster *catalog.Cluster) bool {
	return g.contains(OfCluster(cluster)) && len(g.Groups()) > 0
}

// Allows reports whether it gives the permission about the object.
func (g Grant) Allows(p catalog.Permission, o Object) bool {
	if !g.contains(o) {
		return false
	}
	return isOpen(p, o) || g.holds(p) && g.Selects(requestOf(p, o))
}

// holds reports whether its role has the permission, and the limit's role, too.
func (g Grant) holds(p catalog.Permission) bool {
	return g.role.Holds(p) && (g.limit == nil || g.limit.holds(p))
}

// isOpen reports whether everybody whom a binding lets into a cluster has the permission, whatever
// the role and the rules are: the cluster itself is to be seen.
func isOpen(p catalog.Permission, o Object) bool {
	isRead := p.Verb == catalog.VerbGet || p.Verb == catalog.VerbList || p.Verb == catalog.VerbWatch
	return isRead && p.Resource == catalog.ResourceClusters && o.Cluster != nil && o.Service == ""
}

// requestOf returns the request that rules of bindings know a permission by.
func requestOf(p catalog.Permission, o Object) accessrule.Request {
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	return accessrule.Request{Verb: p.Verb, APIGroup: Group, Resource: resource, Subresource: subresource, Namespace: o.Namespace}
}

// Subjects returns users and groups as grants name them.
func Subjects(users, groups []string) []string {
	var all []string
	for _, user := range users {
		all = append(all, "user:"+user)
	}
	for _, group := range groups {
		all = append(all, "group:"+group)
	}
	return all
}

// Rights are the rights of one person, as of one moment. They are safe for concurrent use.
type Rights struct {
	directory Directory
	grants    []Grant
	// limit is the limit of all grants.
	limit *Grant
}

// NewRights returns the rights of a person by the bindings that name them or one of their groups.
// Bindings that have ended at that time give nothing.
func NewRights(directory Directory, user string, groups []string, bindings []*catalog.AccessBinding, at time.Time) *Rights {
	return NewRightsOfAll(directory, func(name string) bool { return name == user }, groups, bindings, at)
}

// NewRightsOfAll returns what several persons with the same groups have together, by the bindings that
// name one of them or one of their groups.
func NewRightsOfAll(
	directory Directory, isOne func(user string) bool, groups []string, bindings []*catalog.AccessBinding, at time.Time,
) *Rights {
	r := &Rights{directory: directory}
	if slices.Contains(groups, catalog.AdminGroup) {
		r.grants = append(r.grants, AdminGrant())
	}
	for _, binding := range bindings {
		if binding.Expired(at) {
			continue
		}
		users := slices.DeleteFunc(slices.Clone(binding.Spec.Users), func(user string) bool { return !isOne(user) })
		subjects := Subjects(users, common(binding.Spec.Groups, groups))
		if len(subjects) > 0 {
			r.grants = append(r.grants, NewGrant(directory, binding, subjects))
		}
	}
	return r
}

// common returns the names that are in the second list, too.
func common(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(others, name) })
}

// Equal reports whether two persons, or one at two times, have the same rights.
func (r *Rights) Equal(other *Rights) bool {
	return r.sameLimit(other) && slices.EqualFunc(r.grants, other.grants, func(a, b Grant) bool {
		return a.Binding == b.Binding && slices.Equal(a.Subjects, b.Subjects) && sameRole(a.role, b.role)
	})
}

func sameRole(a, b catalog.RoleSpec) bool {
	return a.ClusterRole == b.ClusterRole && slices.EqualFunc(a.Permissions, b.Permissions, func(x, y catalog.Permissible) bool {
		return slices.Equal(x.Verbs, y.Verbs) && slices.Equal(x.Resources, y.Resources)
	})
}

// HoldsEverywhere reports whether the person has the permission for everything that there is.
func (r *Rights) HoldsEverywhere(p catalog.Permission) bool {
	return slices.ContainsFunc(r.grants, func(g Grant) bool { return g.isEverywhere() && g.IsUnconditional() && g.holds(p) })
}

// DependsOnLabels reports whether the labels of clusters decide about anything.
func (r *Rights) DependsOnLabels() bool {
	return r.limit.dependsOnLabels() || slices.ContainsFunc(r.grants, func(g Grant) bool { return g.dependsOnLabels() })
}

// Grants returns all grants.
func (r *Rights) Grants() []Grant { return r.grants }

// Allows reports whether the person has the permission about the object.
func (r *Rights) Allows(p catalog.Permission, o Object) bool {
	return slices.ContainsFunc(r.grants, func(g Grant) bool { return g.Allows(p, o) })
}

// Why returns the grants that give the permission about the object.
func (r *Rights) Why(p catalog.Permission, o Object) []Grant {
	return slices.DeleteFunc(slices.Clone(r.grants), func(g Grant) bool { return !g.Allows(p, o) })
}

// Permissions returns the ones among the permissions that the person has about the object.
func (r *Rights) Permissions(some []catalog.Permission, o Object) []catalog.Permission {
	return slices.DeleteFunc(slices.Clone(some), func(p catalog.Permission) bool { return !r.Allows(p, o) })
}

// Filter returns a function like Allows for one permission and many objects. It decides once for
// each project, cluster and namespace, so a service costs a look into a map. The function is for one
// goroutine, and for as long as clusters keep their labels.
func (r *Rights) Filter(p catalog.Permission) func(Object) bool {
	if r.HoldsEverywhere(p) {
		return func(Object) bool { return true }
	}
	grants := slices.DeleteFunc(slices.Clone(r.grants), func(g Grant) bool { return !g.holds(p) && p.Resource != catalog.ResourceClusters })
	if len(grants) == 0 {
		return func(Object) bool { return false }
	}
	allows := func(o Object) bool {
		return slices.ContainsFunc(grants, func(g Grant) bool { return g.Allows(p, o) })
	}
	named := map[string]bool{}
	for _, g := range grants {
		for _, service := range g.namedServices() {
			named[service] = true
		}
	}
	type place struct{ project, cluster, namespace string }
	decided := map[place]bool{}
	return func(o Object) bool {
		if o.Service == "" || o.Cluster == nil {
			return allows(o)
		}
		at := place{o.Project, o.Cluster.Name, o.Namespace}
		isAllowed, ok := decided[at]
		if !ok {
			unnamed := o
			unnamed.Service = anyService
			isAllowed = allows(unnamed)
			decided[at] = isAllowed
		}
		return isAllowed || (named[o.Service] || named[objectname.LocalPath(o.Service)]) && allows(o)
	}
}

// anyService stands for a service that no binding names. No service has this name.
const anyService = "*"

// ClusterGroups returns the groups of those grants that keep selects, sorted.
func ClusterGroups(grants []Grant, keep func(Grant) bool) []string {
	groups := map[string]bool{}
	for _, g := range grants {
		if keep(g) {
			for _, group := range g.Groups() {
				groups[group] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(groups))
}

// outlives reports whether what ends at a is there until b. Zero means never.
func outlives(a, b time.Time) bool { return a.IsZero() || !b.IsZero() && !b.After(a) }

// commonGroups returns the groups of each list that the other list includes, each once.
func commonGroups(groups, others []string) []string {
	var common []string
	for _, group := range groups {
		if includesGroup(others, group) {
			common = append(common, group)
		}
	}
	for _, group := range others {
		if includesGroup(groups, group) && !slices.Contains(common, group) {
			common = append(common, group)
		}
	}
	return common
}

func (r *Rights) sameLimit(other *Rights) bool {
	if r.limit == nil || other.limit == nil {
		return r.limit == other.limit
	}
	return reflect.DeepEqual(r.limit.Binding.Spec, other.limit.Binding.Spec) && sameRole(r.limit.role, other.limit.role)
}

// dependsOnLabels reports whether the labels of clusters decide about the grant or its limit.
func (g *Grant) dependsOnLabels() bool {
	return g != nil && (g.Binding != nil && g.Binding.Spec.Clusters.Labels != nil || g.limit.dependsOnLabels())
}

// includesGroup reports whether one of the groups of a cluster is the other one, or includes it.
func includesGroup(groups []string, other string) bool {
	switch {
	case slices.Contains(groups, catalog.AdminGroup), slices.Contains(groups, other):
		return true
	}
	return other == "leat:viewers" && slices.Contains(groups, "leat:operators")
}
