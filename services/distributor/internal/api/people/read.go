// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"encoding/base64"
	"log/slog"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

const (
	defaultPageSize = 500
	maxPageSize     = 1000
)

// GetServerInfo implements FleetService.
func (s *Service) GetServerInfo(ctx context.Context, _ *fleetv1.GetServerInfoRequest) (*fleetv1.GetServerInfoResponse, error) {
	id, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetServerInfoResponse{
		Version: s.d.Version, TunnelUrl: s.d.TunnelURL, Subject: id.Subject(), Groups: id.Groups,
	}, nil
}

// GetCluster implements FleetService.
func (s *Service) GetCluster(ctx context.Context, req *fleetv1.GetClusterRequest) (*fleetv1.GetClusterResponse, error) {
	record, err := s.get(ctx, catalog.KindCluster, req.GetName())
	return &fleetv1.GetClusterResponse{Cluster: messageOf[*fleetv1.Cluster](record)}, err
}

// GetRepository implements FleetService.
func (s *Service) GetRepository(ctx context.Context, req *fleetv1.GetRepositoryRequest) (*fleetv1.GetRepositoryResponse, error) {
	record, err := s.get(ctx, catalog.KindRepository, req.GetName())
	if err != nil {
		return nil, err
	}
	records := []fleet.Record{record}
	s.updateMirrors(ctx, records)
	return &fleetv1.GetRepositoryResponse{Repository: messageOf[*fleetv1.Repository](records[0])}, nil
}

// GetService implements FleetService.
func (s *Service) GetService(ctx context.Context, req *fleetv1.GetServiceRequest) (*fleetv1.GetServiceResponse, error) {
	record, err := s.get(ctx, catalog.KindService, req.GetName())
	return &fleetv1.GetServiceResponse{Service: messageOf[*fleetv1.Service](record)}, err
}

// get returns an object that the caller may see, as they see it.
func (s *Service) get(ctx context.Context, kind catalog.Kind, name string) (fleet.Record, error) {
	c, record, err := s.seen(ctx, kind, "name", name)
	if err != nil {
		return fleet.Record{}, err
	}
	return c.shown(record), nil
}

// permitted returns an object for which the caller has the call's permission. The object is named by
// the field of the request.
func (s *Service) permitted(ctx context.Context, kind catalog.Kind, field, reference string) (fleet.Record, error) {
	c, record, err := s.seen(ctx, kind, field, reference)
	if err == nil && !c.allows(record.Object) {
		err = wire.Error(c.rights.Denied(c.needs(), record.Object.Key()))
	}
	return record, err
}

// seen returns an object that the caller may see. Any other object does not exist for them, and the
// search for it takes the same course: it looks twice, because another replica may just have stored
// the object or a binding.
func (s *Service) seen(ctx context.Context, kind catalog.Kind, field, reference string) (*caller, fleet.Record, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, fleet.Record{}, err
	}
	key, err := keyOf(kind, field, reference)
	if err != nil {
		return nil, fleet.Record{}, wire.Error(err)
	}
	record, err := s.find(ctx, c, key)
	return c, record, err
}

// find returns the object of a key that the caller may see, or for a service named without its cluster
// the only one of that name.
func (s *Service) find(ctx context.Context, c *caller, key catalog.Key) (fleet.Record, error) {
	var ambiguous error
	record, ok := fleet.LookTwice(ctx, s.d.View, func() (fleet.Record, bool) {
		c.rights = s.d.View.Rights(c.person)
		one, ok := key, true
		if !isPrecise(key) {
			if one, ok, ambiguous = c.only(key); ambiguous != nil {
				return fleet.Record{}, true
			}
		}
		if !ok {
			return fleet.Record{}, false
		}
		record, ok := s.d.View.Get(one)
		return record, ok && (c.allows(record.Object) || c.sees(record.Object))
	})
	switch {
	case ambiguous != nil:
		return fleet.Record{}, wire.Error(ambiguous)
	case !ok:
		return fleet.Record{}, wire.NotFound(key)
	}
	return record, nil
}

// ListClusters implements FleetService.
func (s *Service) ListClusters(ctx context.Context, req *fleetv1.ListClustersRequest) (*fleetv1.ListClustersResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindCluster, Project: req.GetProject()}, req.GetPage())
	return &fleetv1.ListClustersResponse{Clusters: wire.Each(records, messageOf[*fleetv1.Cluster]), NextPageToken: next}, err
}

// ListRepositories implements FleetService.
func (s *Service) ListRepositories(ctx context.Context, req *fleetv1.ListRepositoriesRequest) (*fleetv1.ListRepositoriesResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindRepository, Project: req.GetProject()}, req.GetPage())
	s.updateMirrors(ctx, records)
	return &fleetv1.ListRepositoriesResponse{Repositories: wire.Each(records, messageOf[*fleetv1.Repository]), NextPageToken: next}, err
}

// updateMirrors puts the present states of mirrors into the records of repositories. The view only
// hears of changes, so that polls that find nothing cost nothing; when the last one was, and when
// the next one is due, is asked of the mirrors' owners here.
func (s *Service) updateMirrors(ctx context.Context, records []fleet.Record) {
	if len(records) == 0 {
		return
	}
	names := make([]string, len(records))
	for i, record := range records {
		names[i] = record.Object.Key().Name
	}
	ctx, cancel := context.WithTimeout(ctx, statesTimeout)
	defer cancel()
	states, err := s.d.Mirrors.States(ctx, names)
	if err != nil {
		s.d.Logger.DebugContext(ctx, "showing mirrors as last reported", slog.Any("error", err))
	}
	for i := range records {
		state, ok := states[records[i].Object.Key().Name]
		if known := records[i].Mirror; ok && (known == nil || known.Epoch <= state.Epoch) {
			records[i].Mirror = &state
		}
	}
}

// ListServices implements FleetService.
func (s *Service) ListServices(ctx context.Context, req *fleetv1.ListServicesRequest) (*fleetv1.ListServicesResponse, error) {
	cluster, err := optionalPath("cluster", req.GetCluster())
	if err != nil {
		return nil, wire.Error(err)
	}
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindService, Cluster: cluster, Project: req.GetProject()}, req.GetPage())
	return &fleetv1.ListServicesResponse{Services: wire.Each(records, messageOf[*fleetv1.Service]), NextPageToken: next}, err
}

// list returns a page of the objects that the caller may see, as they see them.
func (s *Service) list(ctx context.Context, q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := optionalProject(q.Project); err != nil {
		return nil, "", wire.Error(err)
	}
	q.Keep, q.Within = c.visible(c.needs().Verb), c.scope(c.needs().Verb)
	records, next, err := s.page(q, page)
	for i := range records {
		records[i] = c.shown(records[i])
	}
	return records, next, err
}

// page returns a page of the objects, and the token of the next page, which is the name of this
// one's last object.
func (s *Service) page(q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	if err := optionalProject(q.Project); err != nil {
		return nil, "", wire.Error(err)
	}
	var err error
	if q.After, q.Limit, err = pageOf(page); err != nil {
		return nil, "", err
	}
	records, more := s.d.View.List(q)
	if !more {
		return records, "", nil
	}
	return records, pageToken(records[len(records)-1].Object.Key().Name), nil
}

// pageOf returns after which item a page begins, and how many items it holds.
func pageOf(page *typev1.Page) (after string, limit int, err error) {
	text, err := base64.RawURLEncoding.DecodeString(page.GetToken())
	if err != nil {
		return "", 0, rpcerr.Field("page.token", "is not a token that a listing returned")
	}
	if page.GetSize() < 0 {
		return "", 0, rpcerr.Field("page.size", "is negative")
	}
	return string(text), min(cmp.Or(int(page.GetSize()), defaultPageSize), maxPageSize), nil
}

// pageToken returns the token of the page after an item.
func pageToken(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
