// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// RoleObjectOf returns the role that a message describes.
func RoleObjectOf(m *fleetv1.Role) (*catalog.Role, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	spec := m.GetSpec()
	return &catalog.Role{
		Metadata: metadata,
		Spec: catalog.RoleSpec{
			Description: spec.GetDescription(), ClusterRole: roleOf(spec.GetClusterRole()),
			Permissions: wire.Each(spec.GetPermissions(), func(p *fleetv1.RolePermission) catalog.Permissible {
				return catalog.Permissible{Verbs: p.GetVerbs(), Resources: p.GetResources()}
			}),
		},
	}, err
}

func roleObjectMessage(r *catalog.Role) *fleetv1.Role {
	return &fleetv1.Role{
		Metadata: MetadataMessage(&r.Metadata),
		Spec: &fleetv1.RoleSpec{
			Description: r.Spec.Description, ClusterRole: RoleMessage(r.Spec.ClusterRole),
			Permissions: wire.Each(r.Spec.Permissions, func(p catalog.Permissible) *fleetv1.RolePermission {
				return &fleetv1.RolePermission{Verbs: p.Verbs, Resources: p.Resources}
			}),
		},
	}
}

// roleOf returns the role of a message. An unknown value passes by its number, for validation to
// refuse.
func roleOf(r typev1.AccessRole) catalog.RoleName {
	return catalog.RoleName(strings.ToLower(enumname.Of(r)))
}

// RoleMessage returns the message of a built-in role. Any other role has none: see roleNameMessage.
func RoleMessage(r catalog.RoleName) typev1.AccessRole {
	if _, isBuiltin := catalog.BuiltinRole(r); !isBuiltin {
		return typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED
	}
	return enumname.Value[typev1.AccessRole](string(r))
}

// roleNameMessage returns the name of a role that is not built in.
func roleNameMessage(r catalog.RoleName) string {
	if _, isBuiltin := catalog.BuiltinRole(r); isBuiltin {
		return ""
	}
	return string(r)
}
