// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"cmp"
	"fmt"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/accessrule/rulewire"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// BindingOf refuses an unknown field anywhere in the rules, because they narrow the binding.
func BindingOf(m *fleetv1.AccessBinding) (*catalog.AccessBinding, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	clusters, err1 := parseNames("spec.clusters.names", spec.GetClusters().GetNames(), objectname.Default)
	services, err2 := parseEach("spec.services", spec.GetServices(), objectname.Default, objectname.ParseService)
	repositories, err3 := parseNames("spec.repositories", spec.GetRepositories(), objectname.Default)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	rules, err := rulewire.Rules(spec.GetRules())
	if err != nil {
		return nil, fielderr.Within("spec", err)
	}
	if spec.GetExpireTime() != nil && spec.GetExpireTime().CheckValid() != nil {
		return nil, &fielderr.Error{Path: "spec.expire_time", Message: "is not a valid time"}
	}
	role := roleOf(spec.GetRole())
	if _, isBuiltin := catalog.BuiltinRole(role); !isBuiltin {
		return nil, &fielderr.Error{Path: "spec.role", Message: fmt.Sprintf("%q is not a built-in role", string(role))}
	}
	if name := spec.GetRoleName(); name != "" {
		if role != catalog.RoleNone {
			return nil, &fielderr.Error{Path: "spec.role_name", Message: "excludes role; leave one of them out"}
		}
		role = catalog.RoleName(name)
	}
	return &catalog.AccessBinding{
		Metadata: metadata,
		Spec: catalog.AccessBindingSpec{
			Description: spec.GetDescription(), Users: spec.GetUsers(), Groups: spec.GetGroups(),
			Clusters: catalog.ClusterSelection{
				All: spec.GetClusters().GetAll(), Names: clusters, Labels: selectorOf(spec.GetClusters().GetLabels()),
			},
			Hub: spec.GetHub(), Services: services, Repositories: repositories,
			Projects: catalog.ProjectScope{All: spec.GetProjects().GetAll(), Names: spec.GetProjects().GetNames()},
			Role:     role, Rules: rules, ClusterGroups: spec.GetClusterGroups(), ExpiresAt: catalogwire.TimeOf(spec.GetExpireTime()),
		},
	}, nil
}

func bindingMessage(b *catalog.AccessBinding, status fleet.BindingStatus) *fleetv1.AccessBinding {
	spec := b.Spec
	return &fleetv1.AccessBinding{
		Metadata: MetadataMessage(&b.Metadata),
		Spec: &fleetv1.AccessBindingSpec{
			Description: spec.Description, Users: spec.Users, Groups: spec.Groups,
			Hub: spec.Hub, Projects: projectsMessage(spec.Projects), Clusters: clustersMessage(spec.Clusters),
			Services: FormatNames(spec.Services, objectname.Default), Repositories: FormatNames(spec.Repositories, objectname.Default),
			Role: RoleMessage(spec.Role), RoleName: roleNameMessage(spec.Role), Rules: rulewire.Messages(spec.Rules),
			ClusterGroups: spec.ClusterGroups, ExpireTime: catalogwire.Timestamp(spec.ExpiresAt),
		},
		Status: &fleetv1.AccessBindingStatus{Clusters: int32(status.Clusters), Expired: status.Expired},
	}
}

// projectsMessage returns nil for a selection of nothing.
func projectsMessage(s catalog.ProjectScope) *fleetv1.ProjectSelection {
	if s.IsEmpty() {
		return nil
	}
	return &fleetv1.ProjectSelection{All: s.All, Names: s.Names}
}
