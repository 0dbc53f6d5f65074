// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"cmp"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// fleetSourceOf refuses unknown fields, because they may narrow the writes.
func fleetSourceOf(m *fleetv1.FleetSource) (*catalog.FleetSource, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	if len(spec.ProtoReflect().GetUnknown()) > 0 {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	interval, err := durationOf("spec.interval", spec.GetInterval())
	if err != nil {
		return nil, err
	}
	until, err := policywire.End("spec.suspended_until", spec.GetSuspendedUntil())
	if err != nil {
		return nil, err
	}
	source := sourcewire.Of(spec.GetSource())
	if source.Repository, err = objectname.Parse("spec.source.repository", source.Repository, objectname.Project(metadata.Name)); err != nil {
		return nil, err
	}
	return &catalog.FleetSource{Metadata: metadata, Spec: catalog.FleetSourceSpec{
		Description: spec.GetDescription(), Suspended: spec.GetSuspended(), SuspendedUntil: until, Source: source, Interval: interval, DryRun: spec.GetDryRun(),
		KeepsRemoved: spec != nil && spec.Prune != nil && !spec.GetPrune(), PruneLimit: spec.GetPruneLimit(), Adopt: spec.GetAdopt(),
		Kinds: wire.Each(spec.GetKinds(), func(kind string) catalog.Kind { return catalog.Kind(kind) }),
		Role:  cmp.Or(roleOf(spec.GetRole()), catalog.RoleEditor), Projects: spec.GetProjects(), Hub: spec.GetHub(),
	}}, nil
}

// fleetSourceMessage is without what became of the documents.
func fleetSourceMessage(f *catalog.FleetSource) *fleetv1.FleetSource {
	s := f.Spec
	source := s.Source
	source.Repository = objectname.Format(source.Repository, objectname.Project(f.Name))
	m := &fleetv1.FleetSource{
		Metadata: MetadataMessage(&f.Metadata),
		Spec: &fleetv1.FleetSourceSpec{
			Description: s.Description, Suspended: s.Suspended, SuspendedUntil: policywire.EndMessage(s.SuspendedUntil), Source: sourcewire.Message(source), DryRun: s.DryRun, PruneLimit: s.PruneLimit, Adopt: s.Adopt,
			Kinds: wire.Each(s.Kinds, func(kind catalog.Kind) string { return string(kind) }), Role: RoleMessage(s.Role), Projects: s.Projects, Hub: s.Hub,
		},
		Status: &fleetv1.FleetSourceStatus{},
	}
	if s.Interval != 0 {
		m.Spec.Interval = durationpb.New(s.Interval)
	}
	if s.KeepsRemoved {
		m.Spec.Prune = new(false)
	}
	return m
}

// FleetSourceStatusMessage returns the message of what a fleet source last did.
func FleetSourceStatusMessage(s fleetsync.State) *fleetv1.FleetSourceStatus {
	return &fleetv1.FleetSourceStatus{
		Commit: s.Commit, LookedAt: catalogwire.Timestamp(s.LookedAt), SucceededAt: catalogwire.Timestamp(s.SucceededAt),
		Problem: catalogwire.ProblemMessage(s.Problem), Documents: int32(s.Documents), Managed: int32(s.Managed), Failed: int32(s.Failed),
		Held: int32(s.Held), HeldDigest: s.HeldDigest, Pending: int32(s.Pending), ObservedRequest: s.Asked,
	}
}

// FleetSourceDocumentMessage returns the message of one document of a fleet source.
func FleetSourceDocumentMessage(d fleetsync.Document) *fleetv1.FleetSourceDocument {
	return &fleetv1.FleetSourceDocument{
		Position: d.Position, Kind: string(d.Kind), Name: d.Name, Action: enumname.Value[fleetv1.FleetSourceAction](string(d.Action)), Message: d.Message,
	}
}
