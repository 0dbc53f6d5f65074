// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package replica answers ReplicaService: what replicas copy from each other, and ask of each other.
package replica

import (
	"context"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// Service implements ReplicaService. Its handler needs the options of
// api.ReplicaOptions, which let only other replicas in.
type Service struct {
	set     *mirroring.Set
	storage mirror.Storage
	objects *lfs.Objects
}

var _ gitcachev1connect.ReplicaServiceHandler = (*Service)(nil)

// New returns a Service.
func New(set *mirroring.Set, storage mirror.Storage, objects *lfs.Objects) *Service {
	return &Service{set: set, storage: storage, objects: objects}
}

// TakeOver implements the call.
func (s *Service) TakeOver(ctx context.Context, req *gitcachev1.TakeOverRequest) (*gitcachev1.TakeOverResponse, error) {
	r, err := s.repository(ctx, req.GetRepository(), req.GetUid())
	if err != nil {
		return nil, err
	}
	epoch, err := r.TakeOver(ctx)
	if err != nil {
		return nil, wire.Error(err, req.GetRepository())
	}
	return &gitcachev1.TakeOverResponse{Epoch: epoch}, nil
}

// repository returns the repository of that name and UID, once its mirror on disk has been checked.
func (s *Service) repository(ctx context.Context, name, uid string) (*mirroring.Repository, error) {
	if err := wire.CheckAnyName("repository", name); err != nil {
		return nil, err
	}
	r, err := s.set.Get(name)
	if err == nil && r.Definition().UID != uid {
		err = mirror.ErrUnknownRepository
	}
	if err != nil {
		return nil, wire.Error(err, name)
	}
	return r, r.AwaitLoaded(ctx)
}
