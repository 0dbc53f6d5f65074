// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/accessrule"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// clusterGroupPrefix begins the names of groups in clusters that bindings name, so that they are never others' groups.
const clusterGroupPrefix = "leat:group:"

// Access is what a person may do in a cluster, and why.
type Access struct {
	Cluster *catalog.Cluster
	Reasons []AccessReason
	// Until is when the first reason ends; zero: none does.
	Until time.Time
}

// AccessReason is one reason for which somebody may reach a cluster.
type AccessReason struct {
	// Binding is nil for membership in leat:admins.
	Binding *catalog.AccessBinding
	// Subjects are who is meant: "user:NAME" and "group:NAME".
	Subjects []string
	Role     catalog.Role
	// Groups are those in the cluster.
	Groups []string
	// Rules narrow it; nil narrows nothing.
	Rules []accessrule.Rule
}

// Name is the binding's name; empty for membership in leat:admins.
func (r AccessReason) Name() string {
	if r.Binding == nil {
		return ""
	}
	return r.Binding.Name
}

// Allows reports whether the reason lets the request through.
func (r AccessReason) Allows(q accessrule.Request) bool {
	return len(r.Rules) == 0 || accessrule.Choose(r.Rules, q)
}

// Groups are the groups of all reasons that keep is true of, rising.
func (a Access) Groups(keep func(AccessReason) bool) []string {
	groups := map[string]bool{}
	for _, reason := range a.Reasons {
		if keep(reason) {
			for _, group := range reason.Groups {
				groups[group] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(groups))
}

// Access returns what a person with these groups may do in a cluster. ok is false where there is no such cluster.
func (v *View) Access(user string, groups []string, cluster string) (access Access, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	c, ok := v.clusters[cluster]
	if !ok {
		return Access{}, false
	}
	at := now()
	access.Cluster = c
	if slices.Contains(groups, catalog.AdminGroup) {
		access.Reasons = append(access.Reasons, AccessReason{
			Subjects: []string{"group:" + catalog.AdminGroup}, Role: catalog.RoleAdmin, Groups: groupsOf(catalog.RoleAdmin, nil),
		})
	}
	for _, binding := range v.people.of(user, groups) {
		if binding.Expired(at) || !binding.Spec.Clusters.Covers(c) {
			continue
		}
		access.add(binding, meant(binding, user, groups))
	}
	return access, true
}

// AccessOfAll returns what anybody may do in a cluster.
func (v *View) AccessOfAll(cluster string) (access Access, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	c, ok := v.clusters[cluster]
	if !ok {
		return Access{}, false
	}
	at := now()
	access.Cluster = c
	access.Reasons = append(access.Reasons, AccessReason{
		Subjects: []string{"group:" + catalog.AdminGroup}, Role: catalog.RoleAdmin, Groups: groupsOf(catalog.RoleAdmin, nil),
	})
	for _, name := range slices.Sorted(maps.Keys(v.people.bindings)) {
		binding := v.people.bindings[name]
		if !binding.Expired(at) && binding.Spec.Clusters.Covers(c) {
			access.add(binding, subjects(binding.Spec.Users, binding.Spec.Groups))
		}
	}
	return access, true
}

// Reachable returns what tells whether a person may reach a cluster at all; it does not call the view.
func (v *View) Reachable(user string, groups []string) func(*catalog.Cluster) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	at := now()
	bindings := slices.DeleteFunc(v.people.of(user, groups), func(b *catalog.AccessBinding) bool { return b.Expired(at) })
	return func(c *catalog.Cluster) bool {
		return slices.ContainsFunc(bindings, func(b *catalog.AccessBinding) bool { return b.Spec.Clusters.Covers(c) })
	}
}

func (a *Access) add(binding *catalog.AccessBinding, subjects []string) {
	if ends := binding.Spec.ExpiresAt; !ends.IsZero() && (a.Until.IsZero() || ends.Before(a.Until)) {
		a.Until = ends
	}
	a.Reasons = append(a.Reasons, AccessReason{
		Binding: binding, Subjects: subjects, Role: binding.Spec.Role, Rules: binding.Spec.Rules,
		Groups: groupsOf(binding.Spec.Role, binding.Spec.ClusterGroups),
	})
}

// groupsOf are the groups in a cluster that a role stands for, and further ones.
func groupsOf(role catalog.Role, further []string) []string {
	var groups []string
	switch role {
	case catalog.RoleViewer:
		groups = append(groups, "leat:viewers")
	case catalog.RoleOperator:
		groups = append(groups, "leat:operators")
	case catalog.RoleAdmin:
		groups = append(groups, catalog.AdminGroup)
	case catalog.RoleNone:
	}
	for _, name := range further {
		groups = append(groups, clusterGroupPrefix+name)
	}
	return groups
}

// meant are the binding's subjects that the person is.
func meant(binding *catalog.AccessBinding, user string, groups []string) []string {
	var users []string
	if slices.Contains(binding.Spec.Users, user) {
		users = []string{user}
	}
	return subjects(users, slices.DeleteFunc(slices.Clone(binding.Spec.Groups), func(group string) bool { return !slices.Contains(groups, group) }))
}

func subjects(users, groups []string) []string {
	var all []string
	for _, user := range users {
		all = append(all, "user:"+user)
	}
	for _, group := range groups {
		all = append(all, "group:"+group)
	}
	return all
}
