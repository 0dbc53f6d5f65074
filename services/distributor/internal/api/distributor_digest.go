// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/plandelta"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// GetDigest implements DistributorService. It is answered from memory.
func (s *Distributor) GetDigest(ctx context.Context, req *distributorv1.GetDigestRequest) (*distributorv1.GetDigestResponse, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetService() == "" {
		return nil, rpcerr.Field("service", "is required")
	}
	s.d.View.Heard(cluster)
	current, ok := s.d.View.Plan(cluster.Name)
	if !ok {
		return nil, tokenInvalid("the cluster was deleted")
	}
	entry, ok := current.Entry(req.GetService())
	if !ok {
		return nil, notFound(catalog.Key{Kind: catalog.KindService, Name: req.GetService()})
	}
	message := entryMessage(entry)
	sum := plandelta.Sum(message)
	if sum == req.GetKnownDigest() {
		return &distributorv1.GetDigestResponse{Digest: sum, Unchanged: true}, revalidate(ctx, formUnchanged, sum)
	}
	return &distributorv1.GetDigestResponse{
		Digest:        sum,
		PlanVersion:   current.Version,
		Uid:           message.GetUid(),
		SpecDigest:    message.GetSpecDigest(),
		ConfigDigest:  message.GetConfigDigest(),
		BundleDigests: entry.Digests(),
		SyncRequest:   message.GetSyncRequest(),
	}, revalidate(ctx, formDigest, sum)
}
