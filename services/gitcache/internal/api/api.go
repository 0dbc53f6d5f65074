// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package api answers GitCacheService: it checks requests, translates between the wire and the
// core, maps the core's errors to reasons, and passes calls on to the replica that the core names.
package api

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/forward"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

// Registry is what the calls about definitions need.
type Registry interface {
	mirror.Registry
	// Missed is called when a name is not known: another replica may have been told a moment ago.
	Missed(ctx context.Context) error
}

// Checker reports whether a definition can be used; the error is a *mirror.FieldError.
type Checker interface {
	Check(def mirror.Definition) error
}

// Params are what a [Service] works with. All are required but Heartbeat.
type Params struct {
	Set       *mirroring.Set
	Registry  Registry
	Checker   Checker
	Events    mirror.EventLog
	Mirrors   content.Opener
	Snapshots *snapshot.Builder
	// Dial returns the client for the replica of a name.
	Dial   func(replica string) (gitcachev1connect.GitCacheServiceClient, error)
	Logger *slog.Logger
	Tracer trace.Tracer
	// Heartbeat is the longest silence of a stream of events. Zero: 20 s.
	Heartbeat time.Duration
}

const defaultHeartbeat = 20 * time.Second

// Service implements GitCacheService. Use [Options] with its handler, which lets only services in.
type Service struct{ Params }

var _ gitcachev1connect.GitCacheServiceHandler = (*Service)(nil)

// New returns a Service.
func New(p Params) *Service {
	if p.Heartbeat <= 0 {
		p.Heartbeat = defaultHeartbeat
	}
	return &Service{Params: p}
}

// PutRepository implements the call.
func (s *Service) PutRepository(ctx context.Context, req *gitcachev1.PutRepositoryRequest) (*gitcachev1.PutRepositoryResponse, error) {
	def, err := parseDefinition(req.GetRepository())
	if err != nil {
		return nil, err
	}
	if err := s.Checker.Check(def); err != nil {
		return nil, toError(err, def.Name)
	}
	if err := s.Registry.Put(ctx, def); err != nil {
		return nil, toError(err, def.Name)
	}
	return &gitcachev1.PutRepositoryResponse{}, nil
}

// DeleteRepository implements the call.
func (s *Service) DeleteRepository(ctx context.Context, req *gitcachev1.DeleteRepositoryRequest) (*gitcachev1.DeleteRepositoryResponse, error) {
	if err := checkName("name", req.GetName()); err != nil {
		return nil, err
	}
	def, deleted, err := s.Registry.Delete(ctx, req.GetName(), req.GetVersion())
	if err != nil {
		return nil, toError(err, req.GetName())
	}
	if _, err := s.Set.Get(req.GetName()); err == nil && !deleted { // a newer one stays
		return &gitcachev1.DeleteRepositoryResponse{}, nil
	}
	// Also where it was gone before: an earlier call may have deleted it and failed here.
	event := mirror.Event{Repository: req.GetName(), UID: def.UID, Deleted: true, Time: time.Now()}
	if err := s.Events.Append(ctx, event); err != nil {
		return nil, toError(err, req.GetName())
	}
	return &gitcachev1.DeleteRepositoryResponse{}, nil
}

// GetRepository implements the call.
func (s *Service) GetRepository(ctx context.Context, req *gitcachev1.GetRepositoryRequest) (*gitcachev1.GetRepositoryResponse, error) {
	return answer(ctx, s, "name", req.GetName(), client.GetRepository, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.GetRepositoryResponse, error) {
			if _, err := contentOf(r); err != nil && forward.Via(ctx) == mirror.ViaHolder {
				return nil, err // nothing that the asker does not know
			}
			return &gitcachev1.GetRepositoryResponse{Repository: fromDefinition(r.Definition()), State: fromState(r.State())}, nil
		})
}

// ListRepositories implements the call.
func (s *Service) ListRepositories(_ context.Context, req *gitcachev1.ListRepositoriesRequest) (*gitcachev1.ListRepositoriesResponse, error) {
	var after string
	if err := parseToken(req.GetPage(), &after); err != nil {
		return nil, err
	}
	size := pageSize(req.GetPage())
	resp := &gitcachev1.ListRepositoriesResponse{}
	for _, r := range s.Set.List() {
		def := r.Definition()
		if def.Name <= after || (def.Parent != "" && !req.GetIncludeSubmodules()) {
			continue
		}
		if len(resp.GetRepositories()) == size {
			resp.NextPageToken = formatToken(resp.GetRepositories()[size-1].GetName())
			break
		}
		resp.Repositories = append(resp.Repositories, fromDefinition(def))
	}
	return resp, nil
}

// RefreshRepository implements the call. Only the owner can fetch, so there is no answer without
// one.
func (s *Service) RefreshRepository(ctx context.Context, req *gitcachev1.RefreshRepositoryRequest) (*gitcachev1.RefreshRepositoryResponse, error) {
	return answer(ctx, s, "name", req.GetName(), client.RefreshRepository, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.RefreshRepositoryResponse, error) {
			state, err := r.Refresh(ctx, req.GetWait())
			if err != nil {
				return nil, toError(err, req.GetName())
			}
			return &gitcachev1.RefreshRepositoryResponse{State: fromState(state)}, nil
		})
}

// repository returns the repository of a name that a request holds in the given field.
func (s *Service) repository(ctx context.Context, field, name string) (*mirroring.Repository, error) {
	if err := checkAnyName(field, name); err != nil {
		return nil, err
	}
	r, err := s.Set.Get(name)
	if err == nil {
		return r, r.AwaitLoaded(ctx)
	}
	if missed := s.Registry.Missed(ctx); missed != nil {
		s.Logger.DebugContext(ctx, "definitions not read again", slog.Any("error", missed))
	}
	if r, err = s.Set.Get(name); err != nil {
		return nil, toError(err, name)
	}
	return r, r.AwaitLoaded(ctx)
}
