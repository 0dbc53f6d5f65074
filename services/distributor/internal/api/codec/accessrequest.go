// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/accessrule/rulewire"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// AccessRequestOf returns the request that a message describes, without its author and its end. It
// refuses an unknown field in the rules, as BindingOf does. [Read] reads none: documents do not
// write requests.
func AccessRequestOf(m *fleetv1.AccessRequest) (*catalog.AccessRequest, error) {
	spec := m.GetSpec()
	if spec.GetRequester() != "" {
		return nil, fielderr.New("spec.requester", "is set by the hub: it is the person who asks; leave it out")
	}
	binding, err := BindingOf(&fleetv1.AccessBinding{Metadata: m.GetMetadata(), Spec: &fleetv1.AccessBindingSpec{
		Role: spec.GetRole(), RoleName: spec.GetRoleName(), Clusters: spec.GetClusters(), Projects: spec.GetProjects(),
		Services: spec.GetServices(), Repositories: spec.GetRepositories(), Rules: spec.GetRules(),
	}})
	if err != nil {
		return nil, err
	}
	duration, err := durationOf("spec.duration", spec.GetDuration())
	return &catalog.AccessRequest{
		Metadata: binding.Metadata,
		Spec:     catalog.AccessRequestSpec{Access: binding.Spec, Duration: duration, Reason: spec.GetReason()},
	}, err
}

func accessRequestMessage(r *catalog.AccessRequest) *fleetv1.AccessRequest {
	access, end := r.Spec.Access, r.Spec.End
	state := r.StateAt(time.Now())
	status := &fleetv1.AccessRequestStatus{
		State: fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_OPEN, LapseTime: catalogwire.Timestamp(r.LapsesAt()),
		DecideTime: catalogwire.Timestamp(end.At), Word: end.Word, Binding: end.Binding, AccessExpireTime: catalogwire.Timestamp(end.AccessEndsAt),
	}
	if state != catalog.RequestOpen {
		status.State = enumname.Value[fleetv1.AccessRequestState](string(state))
	}
	switch state {
	case catalog.RequestApproved, catalog.RequestDenied:
		status.DecidedBy = end.By
	case catalog.RequestLapsed:
		status.DecideTime = status.GetLapseTime()
	case catalog.RequestOpen, catalog.RequestWithdrawn:
	}
	return &fleetv1.AccessRequest{
		Metadata: MetadataMessage(&r.Metadata),
		Spec: &fleetv1.AccessRequestSpec{
			Requester: r.Spec.Requester, Role: RoleMessage(access.Role), RoleName: roleNameMessage(access.Role),
			Clusters: clustersMessage(access.Clusters), Projects: projectsMessage(access.Projects),
			Services: FormatNames(access.Services, objectname.Default), Repositories: FormatNames(access.Repositories, objectname.Default),
			Rules: rulewire.Messages(access.Rules), Duration: durationpb.New(r.Spec.Duration), Reason: r.Spec.Reason,
		},
		Status: status,
	}
}
