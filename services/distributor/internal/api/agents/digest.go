// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/contract/plandelta"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// GetDigest implements DistributorService. It is answered from memory.
func (s *Service) GetDigest(ctx context.Context, req *distributorv1.GetDigestRequest) (*distributorv1.GetDigestResponse, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetService() == "" {
		return nil, rpcerr.Field("service", "is required")
	}
	s.d.View.Presence.Heard(cluster)
	known := seen(ctx, req.GetKnownDigest())
	answer, err := s.digest(cluster.Name, req)
	if err != nil || answer.GetDigest() != known {
		// Another replica may have told the caller about a change that is unknown here. Without the
		// store, this replica's view counts.
		_ = s.d.View.CatchUp(ctx, cluster.Name, known)
		answer, err = s.digest(cluster.Name, req)
	}
	switch {
	case fleet.IsUndecided(s.d.View, cluster.Name):
		return nil, undecided()
	case err != nil:
		return nil, err
	case answer.GetUnchanged():
		return answer, revalidate(ctx, formUnchanged, answer.GetDigest())
	}
	return answer, revalidate(ctx, formDigest, answer.GetDigest())
}

// digest answers from this replica's view.
func (s *Service) digest(cluster string, req *distributorv1.GetDigestRequest) (*distributorv1.GetDigestResponse, error) {
	current, ok := s.d.View.Plan(cluster)
	if !ok {
		return nil, wire.TokenInvalid("the cluster was deleted")
	}
	entry, ok := current.Entry(req.GetService())
	if !ok {
		return nil, wire.NotFound(catalog.Key{Kind: catalog.KindService, Name: req.GetService()})
	}
	message := wire.EntryMessage(&entry)
	sum := plandelta.Sum(message)
	if sum == req.GetKnownDigest() {
		return &distributorv1.GetDigestResponse{Digest: sum, Unchanged: true}, nil
	}
	return &distributorv1.GetDigestResponse{
		Digest:        sum,
		PlanVersion:   current.Version,
		Uid:           message.GetUid(),
		SpecDigest:    message.GetSpecDigest(),
		ConfigDigest:  message.GetConfigDigest(),
		BundleDigests: entry.Digests(),
		SyncRequest:   message.GetSyncRequest(),
	}, nil
}
