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

// clusterGroupPrefix begins the names of groups in clusters that bindings name, so that they cannot
// be groups of others.
const clusterGroupPrefix = "leat:group:"

// Access is what a person may do in a cluster, and why.
type Access struct {
	Cluster *catalog.Cluster
	Reasons []AccessReason
	// Until is when the first reason ends; zero: none of them ends.
	Until time.Time
}

// AccessReason is one reason why a person may reach a cluster.
type AccessReason struct {
	// Binding is nil for membership in leat:admins.
	Binding *catalog.AccessBinding
	// Subjects are the person, or everybody whom the binding names: "user:NAME" and "group:NAME".
	Subjects []string
	Role     catalog.Role
	// Groups are those in the cluster.
	Groups []string
	// Rules narrow it; nil narrows nothing.
	Rules []accessrule.Rule
}

// Name returns the binding's name, or "" for membership in leat:admins.
func (r AccessReason) Name() string {
	if r.Binding == nil {
		return ""
	}
	return r.Binding.Name
}

// IsUnconditional reports whether the reason allows every request.
func (r AccessReason) IsUnconditional() bool { return len(r.Rules) == 0 }

// Allows reports whether the reason allows the request.
func (r AccessReason) Allows(q accessrule.Request) bool {
	return r.IsUnconditional() || accessrule.Choose(r.Rules, q)
}

// Groups returns the groups of all reasons that keep selects, sorted.
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

// Access returns what a person with these groups may do in a cluster. ok is false if there is no
// such cluster.
func (c *Catalog) Access(user string, groups []string, cluster string) (access Access, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if access.Cluster, ok = c.objects[catalog.KindCluster][cluster].(*catalog.Cluster); !ok {
		return Access{}, false
	}
	if slices.Contains(groups, catalog.AdminGroup) {
		access.addAdmins()
	}
	at := catalog.Now()
	for _, binding := range c.bindings.of(user, groups) {
		access.addBinding(binding, at, subjects(
			common(binding.Spec.Users, []string{user}), common(binding.Spec.Groups, groups)))
	}
	return access, true
}

// AccessOfAll returns what anybody may do in a cluster. ok is false if there is no such cluster.
func (c *Catalog) AccessOfAll(cluster string) (access Access, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if access.Cluster, ok = c.objects[catalog.KindCluster][cluster].(*catalog.Cluster); !ok {
		return Access{}, false
	}
	access.addAdmins()
	at := catalog.Now()
	for _, name := range c.namesLocked(catalog.KindAccessBinding) {
		if binding, ok := c.objects[catalog.KindAccessBinding][name].(*catalog.AccessBinding); ok {
			access.addBinding(binding, at, subjects(binding.Spec.Users, binding.Spec.Groups))
		}
	}
	return access, true
}

// Reachable returns a function that reports whether a person may reach a cluster at all. The
// function does not call the view, so queries may use it.
func (c *Catalog) Reachable(user string, groups []string) func(*catalog.Cluster) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at := catalog.Now()
	bindings := slices.DeleteFunc(c.bindings.of(user, groups), func(b *catalog.AccessBinding) bool { return b.Expired(at) })
	return func(cluster *catalog.Cluster) bool {
		return slices.ContainsFunc(bindings, func(b *catalog.AccessBinding) bool { return b.Spec.Clusters.Covers(cluster) })
	}
}

// BindingStatus is what is known of a binding.
type BindingStatus struct {
	// Clusters counts those that it covers.
	Clusters int
	Expired  bool
}

func (c *Catalog) bindingStatus(binding *catalog.AccessBinding) BindingStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := BindingStatus{Expired: binding.Expired(catalog.Now())}
	for _, object := range c.objects[catalog.KindCluster] {
		if cluster, ok := object.(*catalog.Cluster); ok && binding.Spec.Clusters.Covers(cluster) {
			s.Clusters++
		}
	}
	return s
}

// addAdmins adds membership in leat:admins, which is a reason in every cluster.
func (a *Access) addAdmins() {
	a.Reasons = append(a.Reasons, AccessReason{
		Subjects: subjects(nil, []string{catalog.AdminGroup}), Role: catalog.RoleAdmin, Groups: clusterGroups(catalog.RoleAdmin, nil),
	})
}

// addBinding adds a binding as a reason, unless it has ended or does not cover the cluster.
func (a *Access) addBinding(binding *catalog.AccessBinding, at time.Time, subjects []string) {
	if binding.Expired(at) || !binding.Spec.Clusters.Covers(a.Cluster) {
		return
	}
	if ends := binding.Spec.ExpiresAt; !ends.IsZero() && (a.Until.IsZero() || ends.Before(a.Until)) {
		a.Until = ends
	}
	a.Reasons = append(a.Reasons, AccessReason{
		Binding: binding, Subjects: subjects, Role: binding.Spec.Role, Rules: binding.Spec.Rules,
		Groups: clusterGroups(binding.Spec.Role, binding.Spec.ClusterGroups),
	})
}

// clusterGroups returns the groups in a cluster that a role stands for, and further ones.
func clusterGroups(role catalog.Role, further []string) []string {
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

// common returns the names that are in the second list, too.
func common(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(others, name) })
}

// subjects returns users and groups as bindings' reasons name them.
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
