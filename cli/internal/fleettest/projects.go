// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// GetProject implements FleetService.
func (h *Hub) GetProject(_ context.Context, request *fleetv1.GetProjectRequest) (*fleetv1.GetProjectResponse, error) {
	object, err := h.get("project", request.GetName())
	return &fleetv1.GetProjectResponse{Project: object.GetProject()}, err
}

// ListProjects implements FleetService, one object a page.
func (h *Hub) ListProjects(_ context.Context, request *fleetv1.ListProjectsRequest) (*fleetv1.ListProjectsResponse, error) {
	projects, next := paged(listOf(h, "project", "", (*fleetv1.Document).GetProject), request.GetPage())
	return &fleetv1.ListProjectsResponse{Projects: projects, NextPageToken: next}, nil
}

// DeleteProject implements FleetService.
func (h *Hub) DeleteProject(_ context.Context, request *fleetv1.DeleteProjectRequest) (*fleetv1.DeleteProjectResponse, error) {
	return &fleetv1.DeleteProjectResponse{}, h.remove("project", request.GetName())
}
