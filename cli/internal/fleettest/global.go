// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
)

// globals is a GlobalServiceService that derives nothing: its global services select no cluster.
type globals struct {
	fleetv1connect.UnimplementedGlobalServiceServiceHandler
	hub *Hub
}

// GetGlobalService implements GlobalServiceServiceHandler.
func (g globals) GetGlobalService(_ context.Context, request *fleetv1.GetGlobalServiceRequest) (*fleetv1.GetGlobalServiceResponse, error) {
	object, err := g.hub.get("globalservice", request.GetName())
	return &fleetv1.GetGlobalServiceResponse{GlobalService: object.GetGlobalService()}, err
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
	_, err := g.hub.get("globalservice", request.GetName())
	return &fleetv1.ListGlobalServiceMembersResponse{}, err
}
