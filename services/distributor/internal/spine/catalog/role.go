// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// maxPermissions bounds the entries of one role.
const maxPermissions = 64

// Role is a set of permissions that bindings give.
type Role struct {
	Metadata
	Spec RoleSpec
}

// RoleSpec lists the permissions of the holders of a role. Its JSON is its stored form.
type RoleSpec struct {
	Description string        `json:"description,omitempty"`
	Permissions []Permissible `json:"permissions,omitempty"`
	// ClusterRole is the built-in role whose group the holders have in clusters. RoleNone gives none.
	ClusterRole RoleName `json:"clusterRole,omitempty"`
}

// Holds reports whether the role has the permission.
func (s RoleSpec) Holds(p Permission) bool {
	return slices.ContainsFunc(s.Permissions, func(some Permissible) bool { return some.Holds(p) })
}

// BuiltinRole returns a built-in role. RoleNone is the one without permissions.
func BuiltinRole(name RoleName) (RoleSpec, bool) {
	read := []string{VerbGet, VerbList, VerbWatch}
	viewer := []Permissible{
		{Verbs: read, Resources: []string{ResourceClusters, ResourceRepositories, ResourceServices, ResourceGlobalServices, ResourceRoles, ResourceProjects, ResourceConfigSets, ResourceFleetSources, ResourceRollouts, ResourceImagePolicies, "revisions"}},
		{Verbs: read, Resources: []string{"services/inventory", "services/events"}},
	}
	operator := append(slices.Clone(viewer),
		Permissible{Verbs: []string{VerbSync, VerbPause, VerbRollback, VerbConfirm, VerbPreview}, Resources: []string{ResourceServices}},
		Permissible{Verbs: []string{VerbSync, VerbConfirm}, Resources: []string{ResourceFleetSources}},
		Permissible{Verbs: []string{VerbSync}, Resources: []string{ResourceRepositories, ResourceImagePolicies}},
		Permissible{Verbs: []string{VerbPause}, Resources: []string{ResourceRollouts}},
		Permissible{Verbs: read, Resources: []string{"services/plan", "services/bundles", "services/diff"}},
	)
	editor := append(slices.Clone(operator),
		Permissible{Verbs: []string{VerbCreate, VerbUpdate, VerbDelete}, Resources: []string{ResourceServices, ResourceGlobalServices, ResourceRepositories, ResourceConfigSets, ResourceFleetSources, ResourceImagePolicies}},
		Permissible{Verbs: []string{VerbUse}, Resources: []string{ResourceRepositories, ResourceConfigSets, ResourceBackends}},
	)
	admin := []Permissible{{Verbs: []string{accessrule.All}, Resources: []string{accessrule.All}}}
	switch name {
	case RoleNone:
		return RoleSpec{}, true
	case RoleViewer:
		return RoleSpec{Permissions: viewer, ClusterRole: RoleViewer}, true
	case RoleOperator:
		return RoleSpec{Permissions: operator, ClusterRole: RoleOperator}, true
	case RoleEditor:
		return RoleSpec{Permissions: editor, ClusterRole: RoleEditor}, true
	case RoleAdmin:
		return RoleSpec{Permissions: admin, ClusterRole: RoleAdmin}, true
	}
	return RoleSpec{}, false
}

// Key implements Object.
func (r *Role) Key() Key { return Key{KindRole, r.Name} }

func (r *Role) sameSpec(other Object) bool {
	o, ok := other.(*Role)
	return ok && reflect.DeepEqual(r.Spec, o.Spec)
}

func (r *Role) clone() Object { return new(*r) }

// SpecAt implements Plain.
func (r *Role) SpecAt() any { return &r.Spec }

func (r *Role) normalize()                                    { r.Spec.normalize() }
func (r *Role) settle(Object) error                           { return nil }
func (r *Role) reachable() error                              { return nil }
func (r *Role) checkReferences(context.Context, Reader) error { return nil }
func (r *Role) checkSettled(context.Context, Reader) error    { return nil }
func (r *Role) room(ProjectQuotas) Room                       { return Room{} }
func (r *Role) secrets() map[string]any                       { return nil }
func (r *Role) changesRelease(Object) bool                    { return false }

// Place implements Object: it is the hub's.
func (r *Role) Place() Place { return Place{} }

// Validate implements Object.
func (r *Role) Validate() error {
	if err := cmp.Or(r.validate(KindRole), check.Description(r.Spec.Description)); err != nil {
		return err
	}
	if _, isBuiltin := BuiltinRole(RoleName(r.Name)); isBuiltin {
		return fielderr.New("metadata.name", "%q is a built-in role; choose another name", r.Name)
	}
	if _, ok := BuiltinRole(r.Spec.ClusterRole); !ok {
		return fielderr.New("spec.cluster_role", "%q is not known", string(r.Spec.ClusterRole))
	}
	if len(r.Spec.Permissions) == 0 && r.Spec.ClusterRole == RoleNone {
		return fielderr.New("spec.permissions", "is required, or a cluster role")
	}
	return fielderr.Each("spec.permissions", "items", r.Spec.Permissions, maxPermissions, func(field string, some Permissible) error {
		return some.validate(field)
	})
}

// normalize gives a spec its one stored form. It works on a clone.
func (s *RoleSpec) normalize() {
	permissions := make([]Permissible, len(s.Permissions))
	for i, some := range s.Permissions {
		permissions[i] = Permissible{Verbs: asSet(some.Verbs), Resources: asSet(some.Resources)}
	}
	if s.Permissions = permissions; len(permissions) == 0 {
		s.Permissions = nil
	}
}
