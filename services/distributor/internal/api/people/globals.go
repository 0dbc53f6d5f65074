// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// Globals implements leat.fleet.v1.GlobalServiceService.
type Globals struct {
	// people decides who may call.
	people *Service
}

var _ fleetv1connect.GlobalServiceServiceHandler = (*Globals)(nil)

// NewGlobals returns the service for global services.
func NewGlobals(people *Service) *Globals { return &Globals{people: people} }

// CreateGlobalService implements GlobalServiceServiceHandler.
func (g *Globals) CreateGlobalService(
	ctx context.Context, req *fleetv1.CreateGlobalServiceRequest,
) (*fleetv1.CreateGlobalServiceResponse, error) {
	record, err := g.people.create(ctx)(globalOf(req.GetGlobalService()))
	return &fleetv1.CreateGlobalServiceResponse{GlobalService: messageOf[*fleetv1.GlobalService](record)}, err
}

// GetGlobalService implements GlobalServiceServiceHandler.
func (g *Globals) GetGlobalService(ctx context.Context, req *fleetv1.GetGlobalServiceRequest) (*fleetv1.GetGlobalServiceResponse, error) {
	record, err := g.people.get(ctx, catalog.KindGlobalService, req.GetName())
	return &fleetv1.GetGlobalServiceResponse{GlobalService: messageOf[*fleetv1.GlobalService](record)}, err
}

// ListGlobalServices implements GlobalServiceServiceHandler.
func (g *Globals) ListGlobalServices(
	ctx context.Context, req *fleetv1.ListGlobalServicesRequest,
) (*fleetv1.ListGlobalServicesResponse, error) {
	records, next, err := g.people.list(ctx, fleet.Query{Kind: catalog.KindGlobalService, Project: req.GetProject()}, req.GetPage())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListGlobalServicesResponse{GlobalServices: wire.Each(records, messageOf[*fleetv1.GlobalService]), NextPageToken: next}, nil
}

// UpdateGlobalService implements GlobalServiceServiceHandler.
func (g *Globals) UpdateGlobalService(
	ctx context.Context, req *fleetv1.UpdateGlobalServiceRequest,
) (*fleetv1.UpdateGlobalServiceResponse, error) {
	record, err := g.people.update(ctx)(globalOf(req.GetGlobalService()))
	return &fleetv1.UpdateGlobalServiceResponse{GlobalService: messageOf[*fleetv1.GlobalService](record)}, err
}

// DeleteGlobalService implements GlobalServiceServiceHandler.
func (g *Globals) DeleteGlobalService(
	ctx context.Context, req *fleetv1.DeleteGlobalServiceRequest,
) (*fleetv1.DeleteGlobalServiceResponse, error) {
	people := g.people
	if req.GetCascade() {
		d := people.d
		d.Editor = d.Editor.Cascading()
		people = New(d)
	}
	return &fleetv1.DeleteGlobalServiceResponse{}, people.delete(ctx, catalog.KindGlobalService, req.GetName())
}

// ListGlobalServiceMembers implements GlobalServiceServiceHandler. A page's token is the path of its last
// cluster. A caller who may not see a service is not told of its cluster.
func (g *Globals) ListGlobalServiceMembers(
	ctx context.Context, req *fleetv1.ListGlobalServiceMembersRequest,
) (*fleetv1.ListGlobalServiceMembersResponse, error) {
	c, record, err := g.people.seen(ctx, catalog.KindGlobalService, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	after, limit, err := pageOf(req.GetPage())
	if err != nil {
		return nil, err
	}
	view, res := g.people.d.View, &fleetv1.ListGlobalServiceMembersResponse{}
	last := ""
	for _, member := range fleet.GlobalMembers(view, record.Object.Key().Name, after) {
		if !c.sees(member.Service) {
			continue
		}
		if len(res.GetMembers()) == limit {
			res.NextPageToken = pageToken(last)
			break
		}
		service := messageOf[*fleetv1.Service](c.shown(view.Describe(member.Service)))
		res.Members = append(res.Members, memberMessage(member, objectname.Project(record.Object.Key().Name), service))
		last = member.Cluster
	}
	return res, nil
}
