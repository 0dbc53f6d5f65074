// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/forward"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// PutRepository implements the call.
func (s *Service) PutRepository(
	ctx context.Context, req *gitcachev1.PutRepositoryRequest,
) (*gitcachev1.PutRepositoryResponse, error) {
	def, err := wire.ParseDefinition(req.GetRepository())
	if err != nil {
		return nil, err
	}
	if err := s.Checker.Check(def); err != nil {
		return nil, wire.Error(err, def.Name)
	}
	if err := s.Registry.Put(ctx, def); err != nil {
		return nil, wire.Error(err, def.Name)
	}
	return &gitcachev1.PutRepositoryResponse{}, nil
}

// DeleteRepository implements the call.
func (s *Service) DeleteRepository(
	ctx context.Context, req *gitcachev1.DeleteRepositoryRequest,
) (*gitcachev1.DeleteRepositoryResponse, error) {
	if err := wire.CheckName("name", req.GetName()); err != nil {
		return nil, err
	}
	def, deleted, err := s.Registry.Delete(ctx, req.GetName(), req.GetVersion())
	if err != nil {
		return nil, wire.Error(err, req.GetName())
	}
	if _, err := s.Set.Get(req.GetName()); err == nil && !deleted { // a newer one stays
		return &gitcachev1.DeleteRepositoryResponse{}, nil
	}
	// Also where it was gone before: an earlier call may have deleted it and failed here.
	event := mirror.Event{Repository: req.GetName(), UID: def.UID, Deleted: true, Time: time.Now()}
	if err := s.Events.Append(ctx, event); err != nil {
		return nil, wire.Error(err, req.GetName())
	}
	return &gitcachev1.DeleteRepositoryResponse{}, nil
}

// GetRepository implements the call.
func (s *Service) GetRepository(
	ctx context.Context, req *gitcachev1.GetRepositoryRequest,
) (*gitcachev1.GetRepositoryResponse, error) {
	return answer(ctx, s, "name", req.GetName(), client.GetRepository, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.GetRepositoryResponse, error) {
			if _, err := contentOf(r); err != nil && forward.Via(ctx) == mirror.ViaHolder {
				return nil, err // nothing that the asker does not know
			}
			return &gitcachev1.GetRepositoryResponse{
				Repository: wire.DefinitionMessage(r.Definition()), State: wire.StateMessage(r.State()),
			}, nil
		})
}

// ListRepositories implements the call.
func (s *Service) ListRepositories(
	_ context.Context, req *gitcachev1.ListRepositoriesRequest,
) (*gitcachev1.ListRepositoriesResponse, error) {
	var after string
	if err := wire.ParseToken(req.GetPage(), &after); err != nil {
		return nil, err
	}
	size := wire.PageSize(req.GetPage())
	resp := &gitcachev1.ListRepositoriesResponse{}
	for _, r := range s.Set.List() {
		def := r.Definition()
		if def.Name <= after || (def.Parent != "" && !req.GetIncludeSubmodules()) {
			continue
		}
		if len(resp.GetRepositories()) == size {
			resp.NextPageToken = wire.FormatToken(resp.GetRepositories()[size-1].GetName())
			break
		}
		resp.Repositories = append(resp.Repositories, wire.DefinitionMessage(def))
	}
	return resp, nil
}

// ListWebhookDeliveries implements the call. Every replica has the record.
func (s *Service) ListWebhookDeliveries(
	ctx context.Context, req *gitcachev1.ListWebhookDeliveriesRequest,
) (*gitcachev1.ListWebhookDeliveriesResponse, error) {
	r, err := s.repository(ctx, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	records, err := s.Hooks.Latest(ctx, r.Definition().UID)
	if err != nil {
		return nil, wire.Error(err, req.GetName())
	}
	return &gitcachev1.ListWebhookDeliveriesResponse{Deliveries: wire.DeliveryMessages(records)}, nil
}

// RefreshRepository implements the call. Only the owner can fetch, so there is no answer without
// one.
func (s *Service) RefreshRepository(
	ctx context.Context, req *gitcachev1.RefreshRepositoryRequest,
) (*gitcachev1.RefreshRepositoryResponse, error) {
	return answer(ctx, s, "name", req.GetName(), client.RefreshRepository, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.RefreshRepositoryResponse, error) {
			state, err := r.Refresh(ctx, req.GetWait())
			if err != nil {
				return nil, wire.Error(err, req.GetName())
			}
			return &gitcachev1.RefreshRepositoryResponse{State: wire.StateMessage(state)}, nil
		})
}
