// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
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
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetClusterResponse{Cluster: clusterMessage(record)}, nil
}

// GetRepository implements FleetService.
func (s *Service) GetRepository(ctx context.Context, req *fleetv1.GetRepositoryRequest) (*fleetv1.GetRepositoryResponse, error) {
	record, err := s.get(ctx, catalog.KindRepository, req.GetName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetRepositoryResponse{Repository: repositoryMessage(record)}, nil
}

// GetService implements FleetService.
func (s *Service) GetService(ctx context.Context, req *fleetv1.GetServiceRequest) (*fleetv1.GetServiceResponse, error) {
	record, err := s.get(ctx, catalog.KindService, req.GetName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetServiceResponse{Service: serviceMessage(record)}, nil
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
	record, ok := s.d.View.Get(key)
	if !ok {
		// Another replica may have made it just now.
		s.d.View.Look(ctx)
		record, ok = s.d.View.Get(key)
	}
	if !ok {
		return fleet.Record{}, wire.NotFound(key)
	}
	return record, nil
}

// ListClusters implements FleetService.
func (s *Service) ListClusters(ctx context.Context, req *fleetv1.ListClustersRequest) (*fleetv1.ListClustersResponse, error) {
	records, next, err := s.listOwn(ctx, catalog.KindCluster, req.GetPage())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListClustersResponse{Clusters: each(records, clusterMessage), NextPageToken: next}, nil
}

// ListRepositories implements FleetService.
func (s *Service) ListRepositories(ctx context.Context, req *fleetv1.ListRepositoriesRequest) (*fleetv1.ListRepositoriesResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindRepository}, req.GetPage())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListRepositoriesResponse{Repositories: each(records, repositoryMessage), NextPageToken: next}, nil
}

// ListServices implements FleetService.
func (s *Service) ListServices(ctx context.Context, req *fleetv1.ListServicesRequest) (*fleetv1.ListServicesResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindService, Cluster: req.GetCluster()}, req.GetPage())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListServicesResponse{Services: each(records, serviceMessage), NextPageToken: next}, nil
}

func (s *Service) list(ctx context.Context, q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	if _, err := s.admin(ctx); err != nil {
		return nil, "", err
	}
	return s.page(q, page)
}

func (s *Service) page(q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	after, err := base64.RawURLEncoding.DecodeString(page.GetToken())
	if err != nil {
		return nil, "", rpcerr.Field("page.token", "is not a token that a listing returned")
	}
	if page.GetSize() < 0 {
		return nil, "", rpcerr.Field("page.size", "is negative")
	}
	q.After, q.Limit = string(after), min(int(page.GetSize()), maxPageSize)
	if q.Limit == 0 {
		q.Limit = defaultPageSize
	}
	records, more := s.d.View.List(q)
	if !more {
		return records, "", nil
	}
	last := records[len(records)-1].Object.Key().Name
	return records, base64.RawURLEncoding.EncodeToString([]byte(last)), nil
}

func each[M any](records []fleet.Record, convert func(fleet.Record) M) []M {
	messages := make([]M, len(records))
	for i, record := range records {
		messages[i] = convert(record)
	}
	return messages
}
