// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policywire

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/enumname"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/syncpolicy"
)

// Wanted returns the options in a service's document, as their owner wrote them. The error is a
// *fielderr.Error whose path begins at the spec.
func Wanted(m *fleetv1.ServiceSpec) (syncpolicy.Options, error) {
	sync := m.GetSync()
	if sync == nil {
		sync = &fleetv1.SyncOptions{}
	}
	if !isKnown(m.GetRenderer()) {
		return syncpolicy.Options{}, unknown("renderer", "has a value that is not known")
	}
	if d := sync.GetHealthTimeout(); d != nil && d.CheckValid() != nil {
		return syncpolicy.Options{}, &fielderr.Error{Path: "sync.health_timeout", Message: "is not a valid duration"}
	}
	policy, err := Policy(m.GetPolicy())
	return syncpolicy.Options{
		Namespace: m.GetNamespace(), CreateNamespace: sync.CreateNamespace, Prune: sync.Prune,
		HealthTimeout: sync.GetHealthTimeout().AsDuration(), ForceConflicts: sync.GetForceConflicts(),
		PruneConfirmation: sync.GetPruneConfirmation(), Paused: m.GetPaused(), DryRun: m.GetDryRun(),
		Renderer: word[syncpolicy.Renderer](m.GetRenderer(), 0), Policy: policy,
	}, fielderr.Within("policy", err)
}

// SetWanted writes the options into a service's document: the reverse of Wanted.
func SetWanted(m *fleetv1.ServiceSpec, o syncpolicy.Options) {
	m.Namespace, m.Renderer, m.Paused, m.DryRun = o.Namespace, enumname.Value[distributorv1.Renderer](string(o.Renderer)), o.Paused, o.DryRun
	m.Policy = PolicyMessage(o.Policy)
	sync := &fleetv1.SyncOptions{
		CreateNamespace: o.CreateNamespace, Prune: o.Prune, HealthTimeout: span(o.HealthTimeout),
		ForceConflicts: o.ForceConflicts, PruneConfirmation: o.PruneConfirmation,
	}
	if m.Sync = nil; proto.Size(sync) > 0 {
		m.Sync = sync
	}
}

// Planned returns the options in an agent's plan. Beside an error, which is a
// *fielderr.Error about the policy, it returns the others. A renderer that this version does
// not know is RenderAuto.
func Planned(m *distributorv1.ApplySpec) (syncpolicy.Options, error) {
	policy, err := Policy(m.GetPolicy())
	return syncpolicy.Options{
		Namespace: m.GetNamespace(), CreateNamespace: new(m.GetCreateNamespace()), Prune: new(m.GetPrune()),
		HealthTimeout: m.GetHealthTimeout().AsDuration(), ForceConflicts: m.GetForceConflicts(),
		PruneConfirmation: m.GetPruneConfirmation(), Paused: m.GetPaused(), DryRun: m.GetDryRun(),
		Renderer: word[syncpolicy.Renderer](m.GetRenderer(), 0), Policy: policy,
	}, err
}

// PlanMessage returns the message of options with their defaults: the reverse of Planned.
func PlanMessage(o syncpolicy.Options) *distributorv1.ApplySpec {
	return &distributorv1.ApplySpec{
		Namespace: o.Namespace, CreateNamespace: o.CreatesNamespace(), Prune: o.Prunes(),
		HealthTimeout: durationpb.New(o.HealthTimeout), ForceConflicts: o.ForceConflicts,
		PruneConfirmation: o.PruneConfirmation, Paused: o.Paused, DryRun: o.DryRun,
		Renderer: enumname.Value[distributorv1.Renderer](string(o.Renderer)), Policy: PolicyMessage(o.Policy),
	}
}
