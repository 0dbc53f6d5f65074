// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// fleetSources is a FleetSourceService whose sources hold a removal back.
type fleetSources struct {
	fleetv1connect.UnimplementedFleetSourceServiceHandler
	hub *Hub
}

// heldDigest confirms the removal.
const heldDigest = "0011223344556677"

func (f fleetSources) shown(object *fleetv1.FleetSource) *fleetv1.FleetSource {
	if object != nil {
		object.Status = &fleetv1.FleetSourceStatus{
			Commit: "4b825dc642cb6eb9a060e54bf8d69288fbee4904", Documents: 3, Managed: 3, Held: 1, HeldDigest: heldDigest, ObservedRequest: 1,
			Problem: &typev1.Problem{Message: "the commit removes 1 of 1 objects, which needs a confirmation"},
		}
	}
	return object
}

// GetFleetSource implements FleetSourceServiceHandler.
func (f fleetSources) GetFleetSource(_ context.Context, request *fleetv1.GetFleetSourceRequest) (*fleetv1.GetFleetSourceResponse, error) {
	object, err := f.hub.get("fleetsource", request.GetName())
	return &fleetv1.GetFleetSourceResponse{FleetSource: f.shown(object.GetFleetSource())}, err
}

// ListFleetSources implements FleetSourceServiceHandler, one object a page.
func (f fleetSources) ListFleetSources(_ context.Context, request *fleetv1.ListFleetSourcesRequest) (*fleetv1.ListFleetSourcesResponse, error) {
	all, next := paged(listOf(f.hub, "fleetsource", request.GetProject(), (*fleetv1.Document).GetFleetSource), request.GetPage())
	return &fleetv1.ListFleetSourcesResponse{FleetSources: all, NextPageToken: next}, nil
}

// DeleteFleetSource implements FleetSourceServiceHandler.
func (f fleetSources) DeleteFleetSource(_ context.Context, request *fleetv1.DeleteFleetSourceRequest) (*fleetv1.DeleteFleetSourceResponse, error) {
	return &fleetv1.DeleteFleetSourceResponse{}, f.hub.remove("fleetsource", request.GetName())
}

// SyncFleetSource implements FleetSourceServiceHandler.
func (f fleetSources) SyncFleetSource(_ context.Context, request *fleetv1.SyncFleetSourceRequest) (*fleetv1.SyncFleetSourceResponse, error) {
	_, err := f.hub.get("fleetsource", request.GetName())
	return &fleetv1.SyncFleetSourceResponse{Request: 1}, err
}

// ConfirmFleetSource implements FleetSourceServiceHandler.
func (f fleetSources) ConfirmFleetSource(_ context.Context, request *fleetv1.ConfirmFleetSourceRequest) (*fleetv1.ConfirmFleetSourceResponse, error) {
	_, err := f.hub.get("fleetsource", request.GetName())
	return &fleetv1.ConfirmFleetSourceResponse{}, err
}

// ListFleetSourceDocuments implements FleetSourceServiceHandler.
func (f fleetSources) ListFleetSourceDocuments(
	_ context.Context, request *fleetv1.ListFleetSourceDocumentsRequest,
) (*fleetv1.ListFleetSourceDocumentsResponse, error) {
	_, err := f.hub.get("fleetsource", request.GetName())
	return &fleetv1.ListFleetSourceDocumentsResponse{Documents: []*fleetv1.FleetSourceDocument{
		{Kind: "Cluster", Name: "paris", Action: fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_HELD, Message: "needs a confirmation"},
		{Position: "clusters.yaml:1:1", Kind: "Cluster", Name: "berlin", Action: fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_UNCHANGED},
	}}, err
}
