// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/renderstep/renderstepwire"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// globalOf refuses unknown fields, because they may narrow the clusters.
func globalOf(m *fleetv1.GlobalService) (*catalog.GlobalService, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	if len(spec.ProtoReflect().GetUnknown()) > 0 {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	project := objectname.Project(metadata.Name)
	clusters, err := targetOf("spec.clusters", spec.GetClusters(), project)
	if err != nil {
		return nil, err
	}
	template, err := templateOf(spec.GetTemplate(), project)
	if err != nil {
		return nil, err
	}
	until, err := policywire.End("spec.paused_until", spec.GetPausedUntil())
	if err != nil {
		return nil, err
	}
	g := &catalog.GlobalService{Metadata: metadata, Spec: catalog.GlobalServiceSpec{
		Description: spec.GetDescription(), Clusters: clusters, Paused: spec.GetPaused(), PausedUntil: until,
		Template: catalog.ServiceTemplate{Labels: spec.GetTemplateLabels(), Annotations: spec.GetTemplateAnnotations(), Spec: template},
		Removal:  removalOf(spec.GetRemoval()),
	}}
	for i, override := range spec.GetOverrides() {
		o, err := overrideOf(fielderr.Indexed("spec.overrides", i), override, project)
		if err != nil {
			return nil, err
		}
		g.Spec.Overrides = append(g.Spec.Overrides, o)
	}
	return g, nil
}

func removalOf(m *fleetv1.RemovalPolicy) catalog.RemovalPolicy {
	if m == nil {
		return catalog.RemovalPolicy{}
	}
	return catalog.RemovalPolicy{MaxPercent: m.MaxPercent, Confirmation: m.GetConfirmation()}
}

func targetOf(field string, m *fleetv1.ClusterTarget, project string) (catalog.ClusterTarget, error) {
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		return catalog.ClusterTarget{}, fielderr.New(field, "has a field that this version of the hub does not know")
	}
	names, err := parseNames(field+".names", m.GetNames(), project)
	return catalog.ClusterTarget{
		ClusterSelection: catalog.ClusterSelection{All: m.GetAll(), Names: names, Labels: selectorOf(m.GetLabels())}, When: m.GetWhen(),
	}, err
}

func templateOf(m *fleetv1.ServiceSpec, project string) (catalog.ServiceSpec, error) {
	options, err := policywire.Wanted(m)
	if err != nil {
		return catalog.ServiceSpec{}, fielderr.Within("spec.template", err)
	}
	spec := catalog.ServiceSpec{
		Cluster: m.GetCluster(), Sources: wire.Each(m.GetSources(), sourcewire.Of), Options: &options, Config: configOf(m.GetConfig()),
		ConfigSets: m.GetConfigSets(),
	}
	return spec, parseReferences(&spec, project)
}

func overrideOf(field string, m *fleetv1.ServiceOverride, project string) (catalog.ServiceOverride, error) {
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		return catalog.ServiceOverride{}, fielderr.New(field, "has a field that this version of the hub does not know")
	}
	clusters, err := targetOf(field+".clusters", m.GetClusters(), project)
	if err != nil {
		return catalog.ServiceOverride{}, err
	}
	sets, err := parseEach(field+".config_sets", m.GetConfigSets(), project, objectname.Parse)
	if err != nil {
		return catalog.ServiceOverride{}, err
	}
	until, err := policywire.End(field+".paused_until", m.GetPausedUntil())
	if err != nil {
		return catalog.ServiceOverride{}, err
	}
	o := catalog.ServiceOverride{
		Name: m.GetName(), Clusters: clusters, ConfigSets: sets, Config: configOf(m.GetConfig()),
		Patch: catalog.ServicePatch{Namespace: m.Namespace, Paused: m.Paused, PausedUntil: until, DryRun: m.DryRun, Labels: m.GetLabels()},
	}
	for i, step := range m.GetRender() {
		if len(step.ProtoReflect().GetUnknown()) > 0 {
			return o, fielderr.New(fielderr.Indexed(field+".render", i), "has a field that this version of the hub does not know")
		}
		o.Patch.Render = append(o.Patch.Render, catalog.StepPatch{Step: int(step.GetStep()), Values: renderstepwire.Tree(step.GetValues())})
	}
	for _, source := range m.GetSources() {
		patch := catalog.SourcePatch{Source: int(source.GetSource()), Path: source.Path}
		if source.GetRef() != nil {
			patch.Ref = new(sourcewire.RefOf(source.GetRef()))
		}
		o.Patch.Sources = append(o.Patch.Sources, patch)
	}
	if m.GetPolicy() == nil {
		return o, nil
	}
	policy, err := policywire.Policy(m.GetPolicy())
	if err != nil {
		return o, fielderr.Within(field+".policy", err)
	}
	policy.DependsOn, err = eachDependency(policy.DependsOn, func(i int, service string) (string, error) {
		return objectname.Parse(fielderr.Indexed(field+".policy.depends_on", i)+".service", service, project)
	})
	o.Patch.Policy = &policy
	return o, err
}

// globalMessage never carries a secret: only its key.
func globalMessage(g *catalog.GlobalService, status fleet.GlobalStatus) *fleetv1.GlobalService {
	s, project := g.Spec, objectname.Project(g.Name)
	return &fleetv1.GlobalService{
		Metadata: MetadataMessage(&g.Metadata),
		Spec: &fleetv1.GlobalServiceSpec{
			Description: s.Description, Clusters: targetMessage(s.Clusters, project), Template: templateMessage(s.Template.Spec, project),
			TemplateLabels: s.Template.Labels, TemplateAnnotations: s.Template.Annotations,
			Paused: s.Paused, PausedUntil: policywire.EndMessage(s.PausedUntil), Removal: removalMessage(s.Removal),
			Overrides: wire.Each(s.Overrides, func(o catalog.ServiceOverride) *fleetv1.ServiceOverride { return overrideMessage(o, project) }),
		},
		Status: &fleetv1.GlobalServiceStatus{
			Clusters: int32(status.Clusters), Healthy: int32(status.Healthy), Conflicts: int32(status.Conflicts), Failing: int32(status.Failing),
			Forbidden: int32(status.Forbidden), Held: int32(status.Held), HeldDigest: status.HeldDigest, Problem: catalogwire.ProblemMessage(status.Problem),
			Unhealthy: int32(status.Unhealthy),
		},
	}
}

func templateMessage(spec catalog.ServiceSpec, project string) *fleetv1.ServiceSpec {
	m := serviceSpecMessage(spec, project)
	m.Cluster = ""
	return m
}

func removalMessage(p catalog.RemovalPolicy) *fleetv1.RemovalPolicy {
	if p == (catalog.RemovalPolicy{}) {
		return nil
	}
	return &fleetv1.RemovalPolicy{MaxPercent: p.MaxPercent, Confirmation: p.Confirmation}
}

func targetMessage(t catalog.ClusterTarget, project string) *fleetv1.ClusterTarget {
	return &fleetv1.ClusterTarget{All: t.All, Names: FormatNames(t.Names, project), Labels: selectorMessage(t.Labels), When: t.When}
}

func overrideMessage(o catalog.ServiceOverride, project string) *fleetv1.ServiceOverride {
	m := &fleetv1.ServiceOverride{
		Name: o.Name, Clusters: targetMessage(o.Clusters, project), Config: ConfigMessage(o.Config), ConfigSets: FormatNames(o.ConfigSets, project),
		Namespace: o.Patch.Namespace, Paused: o.Patch.Paused, PausedUntil: policywire.EndMessage(o.Patch.PausedUntil), DryRun: o.Patch.DryRun, Labels: o.Patch.Labels,
	}
	for _, patch := range o.Patch.Render {
		m.Render = append(m.Render, &fleetv1.RenderOverride{Step: int32(patch.Step), Values: renderstepwire.Struct(patch.Values)})
	}
	for _, patch := range o.Patch.Sources {
		source := &fleetv1.SourceOverride{Source: int32(patch.Source), Path: patch.Path}
		if patch.Ref != nil {
			// HEAD is a ref without a selector.
			if source.Ref = sourcewire.Message(catalog.Source{Ref: *patch.Ref}).GetRef(); source.Ref == nil {
				source.Ref = &typev1.GitRef{}
			}
		}
		m.Sources = append(m.Sources, source)
	}
	if o.Patch.Policy != nil {
		policy := formatOptions(syncpolicy.Options{Policy: *o.Patch.Policy}, project).Policy
		if m.Policy = policywire.PolicyMessage(policy); m.Policy == nil {
			m.Policy = &typev1.SyncPolicy{}
		}
	}
	return m
}

// GlobalMember returns a cluster of a global service; service is nil if the caller may not see it.
func GlobalMember(m fleet.GlobalMember, project string, service *fleetv1.Service) *fleetv1.GlobalServiceMember {
	return &fleetv1.GlobalServiceMember{
		Cluster: objectname.Format(m.Cluster, project), Matched: m.Matched, Overrides: m.Overrides, Service: service, Problem: catalogwire.ProblemMessage(m.Problem), Held: m.IsHeld,
	}
}
