// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"encoding/base64"

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
	record, err := s.getOwn(ctx, catalog.Key{Kind: catalog.KindCluster, Name: req.GetName()})
	return &fleetv1.GetClusterResponse{Cluster: clusterMessage(record)}, err
}

// GetRepository implements FleetService.
func (s *Service) GetRepository(ctx context.Context, req *fleetv1.GetRepositoryRequest) (*fleetv1.GetRepositoryResponse, error) {
	record, err := s.get(ctx, catalog.KindRepository, req.GetName())
	return &fleetv1.GetRepositoryResponse{Repository: repositoryMessage(record)}, err
}

// GetService implements FleetService.
func (s *Service) GetService(ctx context.Context, req *fleetv1.GetServiceRequest) (*fleetv1.GetServiceResponse, error) {
	record, err := s.get(ctx, catalog.KindService, req.GetName())
	return &fleetv1.GetServiceResponse{Service: serviceMessage(record)}, err
}

func (s *Service) get(ctx context.Context, kind catalog.Kind, name string) (fleet.Record, error) {
	if _, err := s.admin(ctx); err != nil {
		return fleet.Record{}, err
	}
	return s.find(ctx, catalog.Key{Kind: kind, Name: name})
}

func (s *Service) find(ctx context.Context, key catalog.Key) (fleet.Record, error) {
	if err := catalog.ValidateName("name", key.Name); err != nil {
		return fleet.Record{}, wire.Error(err)
	}
	record, ok := fleet.LookTwice(ctx, s.d.View, func() (fleet.Record, bool) { return s.d.View.Get(key) })
	if !ok {
		return fleet.Record{}, wire.NotFound(key)
	}
	return record, nil
}

// ListClusters implements FleetService.
func (s *Service) ListClusters(ctx context.Context, req *fleetv1.ListClustersRequest) (*fleetv1.ListClustersResponse, error) {
	records, next, err := s.listOwn(ctx, catalog.KindCluster, req.GetPage())
	return &fleetv1.ListClustersResponse{Clusters: wire.Each(records, clusterMessage), NextPageToken: next}, err
}

// ListRepositories implements FleetService.
func (s *Service) ListRepositories(ctx context.Context, req *fleetv1.ListRepositoriesRequest) (*fleetv1.ListRepositoriesResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindRepository}, req.GetPage())
	return &fleetv1.ListRepositoriesResponse{Repositories: wire.Each(records, repositoryMessage), NextPageToken: next}, err
}

// ListServices implements FleetService.
func (s *Service) ListServices(ctx context.Context, req *fleetv1.ListServicesRequest) (*fleetv1.ListServicesResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindService, Cluster: req.GetCluster()}, req.GetPage())
	return &fleetv1.ListServicesResponse{Services: wire.Each(records, serviceMessage), NextPageToken: next}, err
}

func (s *Service) list(ctx context.Context, q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	if _, err := s.admin(ctx); err != nil {
		return nil, "", err
	}
	return s.page(q, page)
}

// page returns a page of the objects, and the token of the next page, which is the name of this one's last object.
func (s *Service) page(q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
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
