// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// Apply implements FleetService.
func (s *Service) Apply(ctx context.Context, req *fleetv1.ApplyRequest) (*fleetv1.ApplyResponse, error) {
	if _, err := s.admin(ctx); err != nil {
		return nil, err
	}
	objects := make([]catalog.Object, len(req.GetDocuments()))
	for i, document := range req.GetDocuments() {
		object, err := documentOf(document)
		if err != nil {
			return nil, wire.Error(inDocument(i, err))
		}
		objects[i] = object
	}
	outcomes, err := s.d.Editor.Apply(ctx, objects, req.GetDryRun())
	if err != nil {
		return nil, wire.Error(err)
	}
	if !req.GetDryRun() {
		s.follow(ctx)
	}
	res := &fleetv1.ApplyResponse{Outcomes: make([]*fleetv1.ApplyOutcome, len(outcomes))}
	for i, outcome := range outcomes {
		res.Outcomes[i] = &fleetv1.ApplyOutcome{
			Action:   actionMessage(outcome.Action),
			Document: documentMessage(s.d.View.Describe(outcome.Object)),
		}
	}
	return res, nil
}

func inDocument(i int, err error) error {
	if e, ok := errors.AsType[*catalog.FieldError](err); ok {
		return &catalog.FieldError{Path: fmt.Sprintf("documents[%d].%s", i, e.Path), Message: e.Message}
	}
	return err
}

func actionMessage(a catalog.Action) fleetv1.ApplyAction {
	switch a {
	case catalog.ActionCreated:
		return fleetv1.ApplyAction_APPLY_ACTION_CREATED
	case catalog.ActionConfigured:
		return fleetv1.ApplyAction_APPLY_ACTION_CONFIGURED
	case catalog.ActionUnchanged:
		return fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED
	}
	return fleetv1.ApplyAction_APPLY_ACTION_UNSPECIFIED
}

// follow lets what was stored be seen at once, here and in gitcache. Should the database have gone since, the monitor
// catches up; what was asked for is done.
func (s *Service) follow(ctx context.Context) {
	if err := s.d.View.Refresh(ctx); err != nil {
		s.d.Logger.WarnContext(ctx, "edit stored, but not seen yet", slog.Any("error", err))
	}
	s.d.Mirrors.Push()
}

// edit is the common course of single edits.
func (s *Service) edit(ctx context.Context, object catalog.Object, do func(context.Context, catalog.Object) (catalog.Object, error)) (fleet.Record, error) {
	if _, err := s.admin(ctx); err != nil {
		return fleet.Record{}, err
	}
	stored, err := do(ctx, object)
	if err != nil {
		return fleet.Record{}, wire.Error(err)
	}
	s.follow(ctx)
	return s.d.View.Describe(stored), nil
}

// CreateCluster implements FleetService.
func (s *Service) CreateCluster(ctx context.Context, req *fleetv1.CreateClusterRequest) (*fleetv1.CreateClusterResponse, error) {
	cluster, err := clusterOf(req.GetCluster())
	if err != nil {
		return nil, wire.Error(err)
	}
	record, err := s.edit(ctx, cluster, s.d.Editor.Create)
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateClusterResponse{Cluster: clusterMessage(record)}, nil
}

// UpdateCluster implements FleetService.
func (s *Service) UpdateCluster(ctx context.Context, req *fleetv1.UpdateClusterRequest) (*fleetv1.UpdateClusterResponse, error) {
	cluster, err := clusterOf(req.GetCluster())
	if err != nil {
		return nil, wire.Error(err)
	}
	record, err := s.edit(ctx, cluster, s.d.Editor.Update)
	if err != nil {
		return nil, err
	}
	return &fleetv1.UpdateClusterResponse{Cluster: clusterMessage(record)}, nil
}

// DeleteCluster implements FleetService.
func (s *Service) DeleteCluster(ctx context.Context, req *fleetv1.DeleteClusterRequest) (*fleetv1.DeleteClusterResponse, error) {
	return &fleetv1.DeleteClusterResponse{}, s.delete(ctx, catalog.Key{Kind: catalog.KindCluster, Name: req.GetName()})
}

// CreateRepository implements FleetService.
func (s *Service) CreateRepository(ctx context.Context, req *fleetv1.CreateRepositoryRequest) (*fleetv1.CreateRepositoryResponse, error) {
	repository, err := repositoryOf(req.GetRepository())
	if err != nil {
		return nil, wire.Error(err)
	}
	record, err := s.edit(ctx, repository, s.d.Editor.Create)
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateRepositoryResponse{Repository: repositoryMessage(record)}, nil
}

// UpdateRepository implements FleetService.
func (s *Service) UpdateRepository(ctx context.Context, req *fleetv1.UpdateRepositoryRequest) (*fleetv1.UpdateRepositoryResponse, error) {
	repository, err := repositoryOf(req.GetRepository())
	if err != nil {
		return nil, wire.Error(err)
	}
	record, err := s.edit(ctx, repository, s.d.Editor.Update)
	if err != nil {
		return nil, err
	}
	return &fleetv1.UpdateRepositoryResponse{Repository: repositoryMessage(record)}, nil
}

// DeleteRepository implements FleetService.
func (s *Service) DeleteRepository(ctx context.Context, req *fleetv1.DeleteRepositoryRequest) (*fleetv1.DeleteRepositoryResponse, error) {
	return &fleetv1.DeleteRepositoryResponse{}, s.delete(ctx, catalog.Key{Kind: catalog.KindRepository, Name: req.GetName()})
}

// CreateService implements FleetService.
func (s *Service) CreateService(ctx context.Context, req *fleetv1.CreateServiceRequest) (*fleetv1.CreateServiceResponse, error) {
	service, err := serviceOf(req.GetService())
	if err != nil {
		return nil, wire.Error(err)
	}
	record, err := s.edit(ctx, service, s.d.Editor.Create)
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateServiceResponse{Service: serviceMessage(record)}, nil
}

// UpdateService implements FleetService.
func (s *Service) UpdateService(ctx context.Context, req *fleetv1.UpdateServiceRequest) (*fleetv1.UpdateServiceResponse, error) {
	service, err := serviceOf(req.GetService())
	if err != nil {
		return nil, wire.Error(err)
	}
	record, err := s.edit(ctx, service, s.d.Editor.Update)
	if err != nil {
		return nil, err
	}
	return &fleetv1.UpdateServiceResponse{Service: serviceMessage(record)}, nil
}

// DeleteService implements FleetService.
func (s *Service) DeleteService(ctx context.Context, req *fleetv1.DeleteServiceRequest) (*fleetv1.DeleteServiceResponse, error) {
	return &fleetv1.DeleteServiceResponse{}, s.delete(ctx, catalog.Key{Kind: catalog.KindService, Name: req.GetName()})
}

func (s *Service) delete(ctx context.Context, key catalog.Key) error {
	if _, err := s.admin(ctx); err != nil {
		return err
	}
	if _, err := s.d.Editor.Delete(ctx, key); err != nil {
		return wire.Error(err)
	}
	s.follow(ctx)
	return nil
}
