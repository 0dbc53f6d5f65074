// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/document"
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

// status counts the members of a global service.
func (g globals) status(name string) *fleetv1.GlobalServiceStatus {
	status := &fleetv1.GlobalServiceStatus{}
	for _, member := range g.members(name) {
		status.Clusters++
		if member.GetHeld() {
			status.Held++
			status.HeldDigest = HeldDigest
		}
	}
	return status
}

// updated removes the members of a global service that are held, if its spec agrees to that.
func (g globals) updated(global *fleetv1.GlobalService) error {
	if global.GetSpec().GetRemoval().GetConfirmation() != HeldDigest {
		return nil
	}
	for _, member := range g.members(document.Reference(global.GetMetadata())) {
		if !member.GetHeld() {
			continue
		}
		if err := g.hub.remove("service", document.ServiceReference(member.GetService())); err != nil {
			return err
		}
	}
	return nil
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
