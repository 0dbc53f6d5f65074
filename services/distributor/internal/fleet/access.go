// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var _ authz.Directory = (*Catalog)(nil)

// Access is a person's access to a cluster, with the reasons.
type Access struct {
	Cluster *catalog.Cluster
	// Rights are all that the person may do, also elsewhere.
	Rights *authz.Rights
	// Grants are the grants that let the person reach the cluster's API.
	Grants []authz.Grant
	// Until is when the first of them ends; zero: none of them ends.
	Until time.Time
}

// Accounts is the catalog for questions about people: who there is, how they sign in and what they
// may do. It is safe for concurrent use.
type Accounts struct{ Catalog *Catalog }

// Rights returns what a person may do now.
func (a Accounts) Rights(p Person) *authz.Rights {
	c := a.Catalog
	c.mu.RLock()
	bindings := c.contents.bindings.of(p.id.Name, p.id.Groups)
	c.mu.RUnlock()
	return a.rightsBy(p, bindings)
}

// rightsBy returns what a person may do now by the bindings that name them, as far as their credential
// goes. It is the only place where a Person becomes Rights.
func (a Accounts) rightsBy(p Person, bindings []*catalog.AccessBinding) *authz.Rights {
	rights := authz.NewRights(a.Catalog, p.id.Name, p.id.Groups, bindings, catalog.Now())
	if p.limit == nil {
		return rights
	}
	return rights.Within(authz.NewLimit(a.Catalog, *p.limit, p.ends))
}

// Access returns a person's access to a cluster. ok is false if there is no such cluster. Cluster
// and bindings are of one revision: no one reaches a cluster by a binding that was deleted before
// the cluster was created.
func (a Accounts) Access(p Person, cluster string) (access Access, ok bool) {
	c := a.Catalog
	c.mu.RLock()
	access.Cluster, ok = c.contents.clusters.objects[cluster]
	bindings := c.contents.bindings.of(p.id.Name, p.id.Groups)
	c.mu.RUnlock()
	access.Rights = a.rightsBy(p, bindings)
	if !ok {
		return access, false
	}
	for _, grant := range access.Rights.Grants() {
		access.add(grant)
	}
	return access, true
}

// AccessOfAll returns all people's access to a cluster. ok is false if there is no such cluster. It
// has no rights, which belong to one person.
func (a Accounts) AccessOfAll(cluster string) (access Access, ok bool) {
	c := a.Catalog
	c.mu.RLock()
	access.Cluster, ok = c.contents.clusters.objects[cluster]
	bindings := c.contents.accessBindings.all()
	c.mu.RUnlock()
	if !ok {
		return Access{}, false
	}
	at := catalog.Now()
	access.add(authz.AdminGrant())
	for _, binding := range bindings {
		if !binding.Expired(at) {
			access.add(authz.NewGrant(c, binding, authz.Subjects(binding.Spec.Users, binding.Spec.Groups)))
		}
	}
	return access, true
}

// add adds a grant, unless it gives no access to the cluster.
func (a *Access) add(grant authz.Grant) {
	if !grant.Reaches(a.Cluster) {
		return
	}
	a.Grants = append(a.Grants, grant)
	if ends := grant.Ends(); !ends.IsZero() && (a.Until.IsZero() || ends.Before(a.Until)) {
		a.Until = ends
	}
}

// Groups returns the groups in the cluster of all grants that keep selects, sorted.
func (a Access) Groups(keep func(authz.Grant) bool) []string {
	return authz.ClusterGroups(a.Grants, keep)
}

// Role implements authz.Directory.
func (c *Catalog) Role(name catalog.RoleName) (catalog.RoleSpec, bool) {
	if spec, ok := catalog.BuiltinRole(name); ok {
		return spec, true
	}
	role, ok := named(c, c.contents.roles, string(name))
	if !ok {
		return catalog.RoleSpec{}, false
	}
	return role.Spec, true
}

// BindingStatus is the state of a binding.
type BindingStatus struct {
	// Clusters counts the clusters that it covers.
	Clusters int
	Expired  bool
}

func (a Accounts) ofBinding(binding *catalog.AccessBinding) BindingStatus {
	c := a.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := BindingStatus{Expired: binding.Expired(catalog.Now())}
	for _, cluster := range c.contents.clusters.objects {
		if binding.Spec.Reaches(&cluster.Metadata) {
			s.Clusters++
		}
	}
	return s
}

// User returns a user by its name.
func (a Accounts) User(name string) (*catalog.User, bool) {
	return named(a.Catalog, a.Catalog.contents.users, name)
}

// token returns the API token of that id if it is the user's and has not ended.
func (a Accounts) token(id, userUID string, at time.Time) (token catalog.Token, ok bool) {
	c := a.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	token, ok = c.contents.tokens[id]
	return token, ok && token.UserUID == userUID && !token.Expired(at)
}

// LimitOf describes the limit of the API token that a credential stands for; empty: it has none, or is
// not known.
func (a Accounts) LimitOf(credential string) string {
	c := a.Catalog
	id, _ := admission.APITokenOf(credential)
	c.mu.RLock()
	limit := c.contents.tokens[id].Limit
	c.mu.RUnlock()
	if limit == nil {
		return ""
	}
	return limit.String()
}
