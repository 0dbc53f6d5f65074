// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func projectOf(m *fleetv1.Project) (*catalog.Project, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	sets, err := parseEach("spec.config_sets", spec.GetConfigSets(), metadata.Name, objectname.Parse)
	if err != nil {
		return nil, err
	}
	limits := spec.GetLimits()
	return &catalog.Project{Metadata: metadata, Spec: catalog.ProjectSpec{
		Description: spec.GetDescription(),
		Shares: wire.Each(spec.GetShares(), func(share *fleetv1.ProjectShare) catalog.ProjectShare {
			return catalog.ProjectShare{
				Projects: selectionOf(share.GetProjects()), Repositories: selectionOf(share.GetRepositories()), Clusters: selectionOf(share.GetClusters()),
				ConfigSets: selectionOf(share.GetConfigSets()), ClusterAnnotations: share.GetClusterAnnotations(),
			}
		}),
		Limits: catalog.ProjectLimits{
			Limits: syncpolicy.Limits{
				Namespaces:         policywire.AllowList(limits.GetNamespaces()),
				ClusterScopedKinds: policywire.AllowList(limits.GetClusterScopedKinds()),
				ServiceAccounts:    policywire.AllowList(limits.GetServiceAccounts()),
			},
			Repositories: policywire.AllowList(limits.GetRepositories()), Clusters: policywire.AllowList(limits.GetClusters()),
		},
		Quotas:     quotasOf(spec.GetQuotas()),
		ConfigSets: sets,
	}}, nil
}

func quotasOf(m *fleetv1.ProjectQuotas) catalog.ProjectQuotas {
	if m == nil {
		return catalog.ProjectQuotas{}
	}
	return catalog.ProjectQuotas{Services: m.Services, Repositories: m.Repositories, BundleBytes: m.BundleBytes, BytesPerBundle: m.BytesPerBundle}
}

func projectMessage(p *catalog.Project, held fleet.Totals, use fleet.BundleUse) *fleetv1.Project {
	return &fleetv1.Project{
		Metadata: MetadataMessage(&p.Metadata),
		Spec: &fleetv1.ProjectSpec{
			Description: p.Spec.Description,
			Shares: wire.Each(p.Spec.Shares, func(share catalog.ProjectShare) *fleetv1.ProjectShare {
				return &fleetv1.ProjectShare{
					Projects: selectionMessage(share.Projects), Repositories: selectionMessage(share.Repositories), Clusters: selectionMessage(share.Clusters),
					ConfigSets: selectionMessage(share.ConfigSets), ClusterAnnotations: share.ClusterAnnotations,
				}
			}),
			Limits: projectLimitsMessage(p.Spec.Limits),
			Quotas: quotasMessage(p.Spec.Quotas), ConfigSets: FormatNames(p.Spec.ConfigSets, p.Name),
		},
		Status: &fleetv1.ProjectStatus{
			Clusters: int32(held.Clusters), Repositories: int32(held.Repositories), Services: int32(held.Services),
			BundleBytes: use.Bytes, Bundles: int32(use.Bundles),
			LargestBundles: wire.Each(use.Largest, func(b fleet.OwnBundle) *fleetv1.ProjectBundle {
				_, repository := objectname.Split(b.Source.Repository)
				return &fleetv1.ProjectBundle{Repository: repository, Path: b.Source.Place(), Bytes: b.Bytes}
			}),
		},
	}
}

func projectLimitsMessage(l catalog.ProjectLimits) *fleetv1.ProjectLimits {
	if l.IsZero() {
		return nil
	}
	return &fleetv1.ProjectLimits{
		Repositories:       policywire.AllowListMessage(l.Repositories),
		Clusters:           policywire.AllowListMessage(l.Clusters),
		Namespaces:         policywire.AllowListMessage(l.Namespaces),
		ClusterScopedKinds: policywire.AllowListMessage(l.ClusterScopedKinds),
		ServiceAccounts:    policywire.AllowListMessage(l.ServiceAccounts),
	}
}

func quotasMessage(q catalog.ProjectQuotas) *fleetv1.ProjectQuotas {
	if q == (catalog.ProjectQuotas{}) {
		return nil
	}
	return &fleetv1.ProjectQuotas{Services: q.Services, Repositories: q.Repositories, BundleBytes: q.BundleBytes, BytesPerBundle: q.BytesPerBundle}
}
