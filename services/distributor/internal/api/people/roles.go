// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

func roleObjectOf(m *fleetv1.Role) (*catalog.Role, error) {
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
		Metadata: metadataMessage(&r.Metadata),
		Spec: &fleetv1.RoleSpec{
			Description: r.Spec.Description, ClusterRole: roleMessage(r.Spec.ClusterRole),
			Permissions: wire.Each(r.Spec.Permissions, func(p catalog.Permissible) *fleetv1.RolePermission {
				return &fleetv1.RolePermission{Verbs: p.Verbs, Resources: p.Resources}
			}),
		},
	}
}
