// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policywire

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/renderstep/renderstepwire"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
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
	if len(m.GetPolicy().GetRequires()) > 0 {
		return syncpolicy.Options{}, fielderr.New("policy.requires", "is the hub's to set, from what the service uses; leave it out")
	}
	if m.GetPolicy().GetLimits() != nil {
		return syncpolicy.Options{}, fielderr.New("policy.limits", "are the project's to set; leave them out")
	}
	until, err := End("paused_until", m.GetPausedUntil())
	if err != nil {
		return syncpolicy.Options{}, err
	}
	steps, err := renderstepwire.Steps("render", m.GetRender())
	if err != nil {
		return syncpolicy.Options{}, err
	}
	policy, err := Policy(m.GetPolicy())
	return syncpolicy.Options{
		Namespace: m.GetNamespace(), CreateNamespace: sync.CreateNamespace, Prune: sync.Prune,
		HealthTimeout: sync.GetHealthTimeout().AsDuration(), ForceConflicts: sync.GetForceConflicts(),
		PruneConfirmation: sync.GetPruneConfirmation(), Paused: m.GetPaused(), PausedUntil: until, DryRun: m.GetDryRun(),
		Renderer: word[syncpolicy.Renderer](m.GetRenderer(), 0), Render: steps, Policy: policy,
	}, fielderr.Within("policy", err)
}

// SetWanted writes the options into a service's document: the reverse of Wanted.
func SetWanted(m *fleetv1.ServiceSpec, o syncpolicy.Options) {
	m.Namespace, m.Renderer, m.Paused, m.DryRun = o.Namespace, enumname.Value[distributorv1.Renderer](string(o.Renderer)), o.Paused, o.DryRun
	m.PausedUntil = EndMessage(o.PausedUntil)
	m.Policy, m.Render = PolicyMessage(o.Policy), renderstepwire.Messages(o.Render)
	sync := &fleetv1.SyncOptions{
		CreateNamespace: o.CreateNamespace, Prune: o.Prune, HealthTimeout: span(o.HealthTimeout),
		ForceConflicts: o.ForceConflicts, PruneConfirmation: o.PruneConfirmation,
	}
	if m.Sync = nil; proto.Size(sync) > 0 {
		m.Sync = sync
	}
}

// Planned returns the options in an agent's plan. Beside an error it returns the options that this
// version knows. The error is a *fielderr.Error whose path begins at the spec; it is about the
// policy, the steps or a capability word. The service must be left unchanged then, because its
// owner asked for something that this version cannot do. A renderer that this version does not know
// is RenderAuto.
func Planned(m *distributorv1.ApplySpec) (syncpolicy.Options, error) {
	policy, err := Policy(m.GetPolicy())
	steps, unknownStep := renderstepwire.Steps("render", m.GetRender())
	return syncpolicy.Options{
		Namespace: m.GetNamespace(), CreateNamespace: new(m.GetCreateNamespace()), Prune: new(m.GetPrune()),
		HealthTimeout: m.GetHealthTimeout().AsDuration(), ForceConflicts: m.GetForceConflicts(),
		PruneConfirmation: m.GetPruneConfirmation(), Paused: m.GetPaused(), DryRun: m.GetDryRun(),
		Renderer: word[syncpolicy.Renderer](m.GetRenderer(), 0), Render: steps, Policy: policy,
	}, cmp.Or(fielderr.Within("policy", err), fielderr.Within("policy", required(m.GetPolicy())), unknownStep)
}

// required returns an error if the policy requires a capability without a meaning in this version.
func required(m *typev1.SyncPolicy) error {
	known := renderstep.WordsKnown()
	for i, word := range m.GetRequires() {
		if !slices.Contains(known, word) {
			return unknown(fielderr.Indexed("requires", i), fmt.Sprintf("asks for %q, which is not known", word))
		}
	}
	return nil
}

// PlanMessage returns the message of options with their defaults: the reverse of Planned. It sets
// no capability words.
func PlanMessage(o syncpolicy.Options) *distributorv1.ApplySpec {
	return &distributorv1.ApplySpec{
		Namespace: o.Namespace, CreateNamespace: o.CreatesNamespace(), Prune: o.Prunes(),
		HealthTimeout: durationpb.New(o.HealthTimeout), ForceConflicts: o.ForceConflicts,
		PruneConfirmation: o.PruneConfirmation, Paused: o.Paused, DryRun: o.DryRun,
		Renderer: enumname.Value[distributorv1.Renderer](string(o.Renderer)), Policy: PolicyMessage(o.Policy),
		Render: renderstepwire.Messages(o.Render),
	}
}

// Require sets the capability words without which an agent must leave the service unchanged. Words
// are in the policy because even agents that know nothing of words refuse a policy that has a field
// which they do not know. They ignore such fields everywhere else.
func Require(m *distributorv1.ApplySpec, words []string) {
	if len(words) == 0 {
		return
	}
	if m.Policy == nil {
		m.Policy = &typev1.SyncPolicy{}
	}
	m.Policy.Requires = words
}
