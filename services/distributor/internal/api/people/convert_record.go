// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/enumname"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/upstream/upstreamwire"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

func clusterMessage(c *catalog.Cluster, status fleet.ClusterStatus) *fleetv1.Cluster {
	return &fleetv1.Cluster{
		Metadata: metadataMessage(&c.Metadata),
		Spec: &fleetv1.ClusterSpec{
			Description: c.Spec.Description, Agent: policywire.SettingsMessage(c.Spec.Settings), AgentEndpoint: c.Spec.AgentEndpoint,
		},
		Status: &fleetv1.ClusterStatus{
			Enrolled:        status.Enrolled,
			Connected:       status.Connected,
			LastSeenAt:      catalogwire.Timestamp(status.LastSeenAt),
			Report:          wire.ClusterReportMessage(status.Report),
			PlanVersion:     status.PlanVersion,
			Services:        int32(status.Services),
			ServicesHealthy: int32(status.ServicesHealthy),

			RemovalsHeldSince: catalogwire.Timestamp(c.RemovalsHeldSince),
		},
	}
}

// repositoryMessage never carries the credential, nor the proxy's password.
func repositoryMessage(repository *catalog.Repository, mirror *catalog.Mirror) *fleetv1.Repository {
	spec := upstreamwire.SpecMessage(repository.Spec.Definition)
	spec.ChartRepositories = formatNames(spec.GetChartRepositories(), objectname.Project(repository.Name))
	return &fleetv1.Repository{Metadata: metadataMessage(&repository.Metadata), Spec: spec, Status: mirrorMessage(mirror)}
}

func mirrorMessage(m *catalog.Mirror) *gitcachev1.RepositoryState {
	if m == nil {
		return nil
	}
	return &gitcachev1.RepositoryState{
		Phase:         enumname.Value[gitcachev1.RepositoryPhase](string(m.Phase)),
		Problem:       catalogwire.ProblemMessage(m.Problem),
		FreshAt:       catalogwire.Timestamp(m.FreshAt),
		ChangedAt:     catalogwire.Timestamp(m.ChangedAt),
		NextPollAt:    catalogwire.Timestamp(m.NextPollAt),
		DefaultBranch: m.DefaultBranch,
		RefCount:      m.Refs,
		DiskBytes:     m.DiskBytes,
		Epoch:         m.Epoch,
		Owner:         m.Owner,
		Failures:      m.Failures,
		Fetches:       m.Fetches,
		HeldRefs:      m.HeldRefs,
		Notices:       m.Notices,
	}
}

func serviceMessage(s *catalog.Service, status fleet.ServiceStatus) *fleetv1.Service {
	return &fleetv1.Service{
		Metadata: metadataMessage(&s.Metadata),
		Spec:     serviceSpecMessage(s.Spec, objectname.Project(s.Name)),
		Status:   serviceStatusMessage(s, status),
	}
}

// serviceSpecMessage returns the spec with references as people write them in the project.
func serviceSpecMessage(spec catalog.ServiceSpec, project string) *fleetv1.ServiceSpec {
	m := &fleetv1.ServiceSpec{
		Cluster: objectname.Format(spec.Cluster, project), Sources: wire.Each(spec.Sources, catalogwire.SourceMessage), Config: configMessage(spec.Config),
		ConfigSets: formatNames(spec.ConfigSets, project),
	}
	for _, source := range m.GetSources() {
		source.Repository = objectname.Format(source.GetRepository(), project)
	}
	policywire.SetWanted(m, formatOptions(spec.Wanted(), project))
	return m
}

func serviceStatusMessage(s *catalog.Service, status fleet.ServiceStatus) *fleetv1.ServiceStatus {
	m := &fleetv1.ServiceStatus{
		Phase:              enumname.Value[typev1.ServicePhase](string(status.Phase)),
		Problem:            catalogwire.ProblemMessage(status.Problem),
		Synced:             status.Synced,
		ObservedGeneration: status.ObservedGeneration,
		SyncRequest:        s.SyncRequest,
		Hold:               holdMessage(s, status.Hold),
	}
	if s.Derived != nil {
		m.GlobalService = objectname.Display(s.Derived.Global)
	}
	if e := s.Exception; e != nil {
		m.Exception = &fleetv1.ServiceException{
			Paused: e.Paused, PruneConfirmation: e.PruneConfirmation, By: e.By, At: catalogwire.Timestamp(e.At), Reason: e.Reason,
		}
	}
	m.Sources = wire.Each(status.Sources, func(r catalog.Resolution) *fleetv1.SourceStatus {
		return &fleetv1.SourceStatus{
			Snapshot: snapshotMessage(r.Snapshot), Problem: catalogwire.ProblemMessage(r.Problem), ResolvedAt: catalogwire.Timestamp(r.ResolvedAt),
		}
	})
	if status.Report != nil {
		m.Report = wire.ReportMessage(s, status.Report)
	}
	return m
}

// configMessage never carries a secret: only its key.
func configMessage(config *catalog.Config) *fleetv1.ServiceConfig {
	if config.Empty() {
		return nil
	}
	m := &fleetv1.ServiceConfig{Values: config.Values, Secrets: make(map[string]string, len(config.Secrets)), References: config.References, Restart: config.Restart}
	for key := range config.Secrets {
		m.Secrets[key] = ""
	}
	return m
}
