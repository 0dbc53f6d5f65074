// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"fmt"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/accessrule/rulewire"
	"github.com/leatdev/leat/internal/enumname"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

func userOf(m *fleetv1.User) (*catalog.User, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	return &catalog.User{
		Metadata: metadata,
		Spec:     catalog.UserSpec{Description: m.GetSpec().GetDescription(), Groups: m.GetSpec().GetGroups()},
	}, err
}

func userMessage(u *catalog.User) *fleetv1.User {
	return &fleetv1.User{
		Metadata: metadataMessage(&u.Metadata), Spec: &fleetv1.UserSpec{Description: u.Spec.Description, Groups: u.Spec.Groups},
	}
}

// bindingOf refuses an unknown field anywhere in the rules, because they narrow the binding.
func bindingOf(m *fleetv1.AccessBinding) (*catalog.AccessBinding, error) {
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

func selectorOf(m *fleetv1.LabelSelector) *catalog.LabelSelector {
	if m == nil {
		return nil
	}
	return &catalog.LabelSelector{
		MatchLabels: m.GetMatchLabels(),
		MatchExpressions: wire.Each(m.GetMatchExpressions(), func(r *fleetv1.LabelRequirement) catalog.LabelRequirement {
			return catalog.LabelRequirement{Key: r.GetKey(), Operator: operators()[r.GetOperator()], Values: r.GetValues()}
		}),
	}
}

func operators() map[fleetv1.LabelOperator]catalog.LabelOperator {
	return map[fleetv1.LabelOperator]catalog.LabelOperator{
		fleetv1.LabelOperator_LABEL_OPERATOR_IN:             catalog.LabelIn,
		fleetv1.LabelOperator_LABEL_OPERATOR_NOT_IN:         catalog.LabelNotIn,
		fleetv1.LabelOperator_LABEL_OPERATOR_EXISTS:         catalog.LabelExists,
		fleetv1.LabelOperator_LABEL_OPERATOR_DOES_NOT_EXIST: catalog.LabelDoesNotExist,
	}
}

func operatorMessage(operator catalog.LabelOperator) fleetv1.LabelOperator {
	for m, o := range operators() {
		if o == operator {
			return m
		}
	}
	return fleetv1.LabelOperator_LABEL_OPERATOR_UNSPECIFIED
}

// roleOf returns the role of a message. An unknown value passes by its number, for validation to
// refuse.
func roleOf(r typev1.AccessRole) catalog.RoleName {
	return catalog.RoleName(strings.ToLower(enumname.Of(r)))
}

// roleMessage returns the message of a built-in role. Any other role has none: see roleNameMessage.
func roleMessage(r catalog.RoleName) typev1.AccessRole {
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

func bindingMessage(b *catalog.AccessBinding, status fleet.BindingStatus) *fleetv1.AccessBinding {
	spec := b.Spec
	return &fleetv1.AccessBinding{
		Metadata: metadataMessage(&b.Metadata),
		Spec: &fleetv1.AccessBindingSpec{
			Description: spec.Description, Users: spec.Users, Groups: spec.Groups,
			Hub: spec.Hub, Projects: projectsMessage(spec.Projects), Clusters: clustersMessage(spec.Clusters),
			Services: formatNames(spec.Services, objectname.Default), Repositories: formatNames(spec.Repositories, objectname.Default),
			Role: roleMessage(spec.Role), RoleName: roleNameMessage(spec.Role), Rules: rulewire.Messages(spec.Rules),
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

func clustersMessage(s catalog.ClusterSelection) *fleetv1.ClusterSelection {
	if s.IsEmpty() {
		return nil
	}
	return &fleetv1.ClusterSelection{All: s.All, Names: formatNames(s.Names, objectname.Default), Labels: selectorMessage(s.Labels)}
}

func selectorMessage(s *catalog.LabelSelector) *fleetv1.LabelSelector {
	if s == nil {
		return nil
	}
	return &fleetv1.LabelSelector{
		MatchLabels: s.MatchLabels,
		MatchExpressions: wire.Each(s.MatchExpressions, func(r catalog.LabelRequirement) *fleetv1.LabelRequirement {
			return &fleetv1.LabelRequirement{Key: r.Key, Operator: operatorMessage(r.Operator), Values: r.Values}
		}),
	}
}
