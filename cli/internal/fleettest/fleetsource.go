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

// holding is the status of a source that holds a removal back.
func holding() *fleetv1.FleetSourceStatus {
	return &fleetv1.FleetSourceStatus{
		Commit: "4b825dc642cb6eb9a060e54bf8d69288fbee4904", Documents: 3, Managed: 3, Held: 1, HeldDigest: heldDigest, ObservedRequest: 1,
		Problem: &typev1.Problem{Message: "the commit removes 1 of 1 objects, which needs a confirmation"},
	}
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
