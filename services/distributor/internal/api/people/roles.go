// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// CreateRole implements FleetService.
func (s *Service) CreateRole(ctx context.Context, req *fleetv1.CreateRoleRequest) (*fleetv1.CreateRoleResponse, error) {
	record, err := s.create(ctx)(roleObjectOf(req.GetRole()))
	return &fleetv1.CreateRoleResponse{Role: messageOf[*fleetv1.Role](record)}, err
}

// GetRole implements FleetService.
func (s *Service) GetRole(ctx context.Context, req *fleetv1.GetRoleRequest) (*fleetv1.GetRoleResponse, error) {
	record, err := s.get(ctx, catalog.KindRole, req.GetName())
	return &fleetv1.GetRoleResponse{Role: messageOf[*fleetv1.Role](record)}, err
}

// ListRoles implements FleetService.
func (s *Service) ListRoles(ctx context.Context, req *fleetv1.ListRolesRequest) (*fleetv1.ListRolesResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindRole}, req.GetPage())
	return &fleetv1.ListRolesResponse{Roles: wire.Each(records, messageOf[*fleetv1.Role]), NextPageToken: next}, err
}

// UpdateRole implements FleetService.
func (s *Service) UpdateRole(ctx context.Context, req *fleetv1.UpdateRoleRequest) (*fleetv1.UpdateRoleResponse, error) {
	record, err := s.update(ctx)(roleObjectOf(req.GetRole()))
	return &fleetv1.UpdateRoleResponse{Role: messageOf[*fleetv1.Role](record)}, err
}

// DeleteRole implements FleetService.
func (s *Service) DeleteRole(ctx context.Context, req *fleetv1.DeleteRoleRequest) (*fleetv1.DeleteRoleResponse, error) {
	return &fleetv1.DeleteRoleResponse{}, s.delete(ctx, catalog.KindRole, req.GetName())
}

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
