// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/plandelta"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// The forms of an answer, as entity tags name them.
const (
	formPlan      = "plan"
	formDelta     = "delta"
	formDigest    = "digest"
	formUnchanged = "unchanged"
)

// GetPlan implements DistributorService. It is answered from memory.
func (s *Distributor) GetPlan(ctx context.Context, req *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	current, err := s.polled(ctx)
	if err != nil {
		return nil, err
	}
	res := &distributorv1.GetPlanResponse{PollInterval: durationpb.New(s.d.PollInterval)}
	if current.Version == req.GetKnownVersion() {
		res.Unchanged = true
		return res, revalidate(ctx, formUnchanged, current.Version)
	}
	if req.GetAcceptDelta() {
		base, _ := s.d.View.Recent(current.Cluster, req.GetKnownVersion())
		if res.Delta = deltaMessage(base, current); res.Delta != nil {
			return res, revalidate(ctx, formDelta, current.Version)
		}
	}
	if err := revalidate(ctx, formPlan, current.Version); err != nil {
		return nil, err
	}
	res.Plan = planMessage(current)
	return res, nil
}

// GetDigest implements DistributorService. It is answered from memory.
func (s *Distributor) GetDigest(ctx context.Context, req *distributorv1.GetDigestRequest) (*distributorv1.GetDigestResponse, error) {
	if req.GetService() == "" {
		return nil, rpcerr.Field("service", "is required")
	}
	current, err := s.polled(ctx)
	if err != nil {
		return nil, err
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

// polled returns the plan of the calling agent, who is noted as alive.
func (s *Distributor) polled(ctx context.Context) (*plan.Plan, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	s.d.View.Heard(cluster)
	current, ok := s.d.View.Plan(cluster.Name)
	if !ok {
		return nil, tokenInvalid("the cluster was deleted")
	}
	return current, nil
}
