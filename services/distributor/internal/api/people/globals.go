// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Globals implements leat.fleet.v1.GlobalServiceService.
type Globals struct {
	// people decides who may call.
	people *Service
}

var _ fleetv1connect.GlobalServiceServiceHandler = (*Globals)(nil)

// NewGlobals returns the service for global services.
func NewGlobals(people *Service) *Globals { return &Globals{people: people} }

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
	for _, member := range (fleet.Globals{Catalog: view.Catalog}).Members(record.Object.Key().Name, after) {
		if !c.sees(member.Service) {
			continue
		}
		if len(res.GetMembers()) == limit {
			res.NextPageToken = pageToken(last)
			break
		}
		derived := c.shown(view.Records.Describe(member.Service))
		service := codec.MessageOf[*fleetv1.Service](&derived)
		res.Members = append(res.Members, codec.GlobalMember(member, objectname.Project(record.Object.Key().Name), service))
		last = member.Cluster
	}
	return res, nil
}
