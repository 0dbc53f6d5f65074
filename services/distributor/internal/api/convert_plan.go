// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/plandelta"
	"github.com/leatdev/leat/internal/syncpolicy/policywire"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

func planMessage(p *plan.Plan) *distributorv1.Plan {
	m := &distributorv1.Plan{
		Cluster:  p.Cluster,
		Version:  p.Version,
		Services: make([]*distributorv1.PlanService, len(p.Entries)),
		Time:     timestamppb.New(p.ComputedAt),
		Settings: policywire.SettingsMessage(p.Settings),
	}
	for i, entry := range p.Entries {
		m.Services[i] = entryMessage(entry)
	}
	return m
}

// deltaMessage returns what leads from one plan to another. It returns nil when the first is unknown, and when nothing is
// left of it: then the whole plan says the same.
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
	}
	for i, entry := range delta.Changed {
		m.Services[i] = entryMessage(entry)
	}
	return m
}

func entryMessage(e *plan.Entry) *distributorv1.PlanService {
	m := &distributorv1.PlanService{
		Name:         e.Name,
		Uid:          e.UID,
		SpecDigest:   e.SpecDigest,
		ConfigDigest: e.ConfigDigest,
		Apply:        applyMessage(e.Apply),
		SyncRequest:  e.SyncRequest,
		Traceparent:  e.Traceparent,
	}
	for _, b := range e.Bundles {
		m.Bundles = append(m.Bundles, &distributorv1.PlanBundle{
			Digest:     b.Digest.String(),
			Commit:     b.Commit,
			Repository: b.Source.Repository,
			Path:       b.Source.Path,
			Subpath:    b.Subpath,
		})
	}
	return m
}

func applyMessage(a plan.Apply) *distributorv1.ApplySpec {
	return &distributorv1.ApplySpec{
		Namespace:       a.Namespace,
		CreateNamespace: a.CreateNamespace,
		Prune:           a.Prune,
		HealthTimeout:   durationpb.New(a.HealthTimeout),
		Paused:          a.Paused,
		ForceConflicts:  a.ForceConflicts,
		Renderer:        rendererMessage(a.Renderer),

		PruneConfirmation: a.PruneConfirmation,
		Policy:            policywire.PolicyMessage(a.Policy),
		DryRun:            a.DryRun,
	}
}
