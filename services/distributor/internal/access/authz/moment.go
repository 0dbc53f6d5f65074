// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Moment is everything that decided about requests to one cluster at one time. It is safe for
// concurrent use.
type Moment struct {
	Target   *catalog.Cluster
	Bindings []*catalog.AccessBinding
	// Roles are the ones that are not built in.
	Roles map[catalog.RoleName]catalog.RoleSpec
}

var _ Directory = Moment{}

// Cluster implements Directory. There is no other cluster than the target.
func (m Moment) Cluster(name string) (*catalog.Cluster, bool) {
	return m.Target, m.Target != nil && m.Target.Name == name
}

// Service implements Directory. There are no services.
func (m Moment) Service(string) (*catalog.Service, bool) { return nil, false }

// Role implements Directory.
func (m Moment) Role(name catalog.RoleName) (catalog.RoleSpec, bool) {
	if spec, ok := catalog.BuiltinRole(name); ok {
		return spec, true
	}
	spec, ok := m.Roles[name]
	return spec, ok
}

// Allowed returns the grants by which a person could send the request to the cluster, with all
// subjects of each: membership in leat:admins, and bindings that had not ended at that time. A
// request of the API group leat.dev is a permission about the cluster as a whole.
func (m Moment) Allowed(q accessrule.Request, at time.Time) []Grant {
	grants := []Grant{AdminGrant()}
	for _, binding := range m.Bindings {
		if !binding.Expired(at) {
			grants = append(grants, NewGrant(m, binding, Subjects(binding.Spec.Users, binding.Spec.Groups)))
		}
	}
	return slices.DeleteFunc(grants, func(g Grant) bool { return !m.allows(g, q) })
}

func (m Moment) allows(g Grant, q accessrule.Request) bool {
	if q.APIGroup == Group {
		object := OfCluster(m.Target)
		object.Namespace = q.Namespace
		return g.Allows(PermissionOf(q), object)
	}
	return g.Reaches(m.Target) && (q.Open() || g.Selects(q))
}

// PermissionOf returns the permission that a request for a resource of the hub needs.
func PermissionOf(q accessrule.Request) catalog.Permission {
	p := catalog.Permission{Verb: q.Verb, Resource: q.Resource}
	if q.Subresource != "" {
		p.Resource += "/" + q.Subresource
	}
	return p
}
