// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/document"
)

// Held is a label of services that a global service of their name holds.
const Held = "held"

// HeldDigest agrees to the removal of those.
var HeldDigest = "sha256:" + strings.Repeat("8", 64)

// globals is a GlobalServiceService that derives nothing: the members of a global service are the services
// of its name.
type globals struct {
	fleetv1connect.UnimplementedGlobalServiceServiceHandler
	hub *Hub
}

// GetGlobalService implements GlobalServiceServiceHandler.
func (g globals) GetGlobalService(_ context.Context, request *fleetv1.GetGlobalServiceRequest) (*fleetv1.GetGlobalServiceResponse, error) {
	object, err := g.hub.get("globalservice", request.GetName())
	if err != nil {
		return nil, err
	}
	global := object.GetGlobalService()
	for _, member := range g.members(request.GetName()) {
		if global.Status == nil {
			global.Status = &fleetv1.GlobalServiceStatus{}
		}
		global.Status.Clusters++
		if member.GetHeld() {
			global.Status.Held++
			global.Status.HeldDigest = HeldDigest
		}
	}
	return &fleetv1.GetGlobalServiceResponse{GlobalService: global}, nil
}

// UpdateGlobalService implements GlobalServiceServiceHandler. A confirmation ends what is held.
func (g globals) UpdateGlobalService(
	_ context.Context, request *fleetv1.UpdateGlobalServiceRequest,
) (*fleetv1.UpdateGlobalServiceResponse, error) {
	name := document.Reference(request.GetGlobalService().GetMetadata())
	object, err := g.hub.get("globalservice", name)
	if err != nil {
		return nil, err
	}
	stored := object.GetGlobalService()
	stored.Spec = request.GetGlobalService().GetSpec()
	stored.Metadata.ResourceVersion++
	g.hub.Put(object)
	for _, member := range g.members(name) {
		if member.GetHeld() && stored.GetSpec().GetRemoval().GetConfirmation() == HeldDigest {
			if err := g.hub.remove("service", document.ServiceReference(member.GetService())); err != nil {
				return nil, err
			}
		}
	}
	return &fleetv1.UpdateGlobalServiceResponse{GlobalService: stored}, nil
}

func (g globals) members(global string) []*fleetv1.GlobalServiceMember {
	var members []*fleetv1.GlobalServiceMember
	for _, object := range g.hub.list("service/") {
		service := object.GetService()
		if document.Reference(service.GetMetadata()) != global {
			continue
		}
		_, isHeld := service.GetMetadata().GetLabels()[Held]
		members = append(members, &fleetv1.GlobalServiceMember{Cluster: service.GetSpec().GetCluster(), Service: service, Held: isHeld})
	}
	return members
}

// ListGlobalServices implements GlobalServiceServiceHandler, one object a page.
func (g globals) ListGlobalServices(_ context.Context, request *fleetv1.ListGlobalServicesRequest) (*fleetv1.ListGlobalServicesResponse, error) {
	all, next := paged(listOf(g.hub, "globalservice", request.GetProject(), (*fleetv1.Document).GetGlobalService), request.GetPage())
	return &fleetv1.ListGlobalServicesResponse{GlobalServices: all, NextPageToken: next}, nil
}

// DeleteGlobalService implements GlobalServiceServiceHandler.
func (g globals) DeleteGlobalService(
	_ context.Context, request *fleetv1.DeleteGlobalServiceRequest,
) (*fleetv1.DeleteGlobalServiceResponse, error) {
	return &fleetv1.DeleteGlobalServiceResponse{}, g.hub.remove("globalservice", request.GetName())
}

// ListGlobalServiceMembers implements GlobalServiceServiceHandler.
func (g globals) ListGlobalServiceMembers(
	_ context.Context, request *fleetv1.ListGlobalServiceMembersRequest,
) (*fleetv1.ListGlobalServiceMembersResponse, error) {
	if _, err := g.hub.get("globalservice", request.GetName()); err != nil {
		return nil, err
	}
	one, next := paged(g.members(request.GetName()), request.GetPage())
	return &fleetv1.ListGlobalServiceMembersResponse{Members: one, NextPageToken: next}, nil
}
