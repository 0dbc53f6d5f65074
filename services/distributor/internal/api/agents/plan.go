// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/contract/plandelta"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// GetPlan implements DistributorService. It is answered from memory.
func (s *Service) GetPlan(ctx context.Context, req *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	s.d.View.Presence.Heard(cluster)
	if fleet.IsUndecided(s.d.View, cluster.Name) {
		return nil, undecided()
	}
	res := &distributorv1.GetPlanResponse{PollInterval: durationpb.New(s.d.PollInterval)}
	current, ok := s.d.View.Plan(cluster.Name)
	if known := seen(ctx, req.GetKnownVersion()); ok && current.Version != known {
		if err := s.d.View.CatchUp(ctx, cluster.Name, known); err != nil {
			return nil, behind(err)
		}
		if fleet.IsUndecided(s.d.View, cluster.Name) {
			return nil, undecided() // by what it has just read
		}
		current, ok = s.d.View.Plan(cluster.Name)
	}
	switch {
	case !ok:
		return nil, wire.TokenInvalid("the cluster was deleted")
	case current.Version == req.GetKnownVersion():
		res.Unchanged = true
		return res, revalidate(ctx, formUnchanged, current.Version)
	case req.GetAcceptDelta():
		base, _ := s.d.View.Recent(cluster.Name, req.GetKnownVersion())
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

func planMessage(p *plan.Plan) *distributorv1.Plan {
	m := &distributorv1.Plan{
		Cluster:  p.Cluster,
		Version:  p.Version,
		Services: make([]*distributorv1.PlanService, len(p.Entries)),
		Time:     timestamppb.New(p.ComputedAt),
		Settings: policywire.SettingsMessage(p.Settings),
		Facts:    wire.FactsMessage(p.Facts),

		RemovalsHeldSince: catalogwire.Timestamp(p.RemovalsHeldSince),
	}
	for i, entry := range p.Entries {
		m.Services[i] = wire.EntryMessage(entry)
	}
	return m
}

// deltaMessage returns the change from one plan to another. It returns nil when the first is
// unknown, and when nothing is left of it: then the whole plan is equivalent.
func deltaMessage(from, to *plan.Plan) *distributorv1.PlanDelta {
	if from == nil {
		return nil
	}
	delta := plan.Diff(from, to)
	if len(delta.Changed) == len(to.Entries) {
		return nil
	}
	m := &distributorv1.PlanDelta{
		FromVersion: delta.From,
		ToVersion:   delta.To,
		Services:    make([]*distributorv1.PlanService, len(delta.Changed)),
		Removed:     delta.Removed,
		Time:        timestamppb.New(delta.ComputedAt),
		Sum:         plandelta.Sum(planMessage(to).GetServices()...),
		Settings:    policywire.SettingsMessage(delta.Settings),
		Facts:       wire.FactsMessage(delta.Facts),

		RemovalsHeldSince: catalogwire.Timestamp(delta.RemovalsHeldSince),
	}
	for i, entry := range delta.Changed {
		m.Services[i] = wire.EntryMessage(entry)
	}
	return m
}
