// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/upstream/upstreamwire"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// documentMessage returns the record as a document.
func documentMessage(r fleet.Record) *fleetv1.Document {
	switch r.Object.(type) {
	case *catalog.Cluster:
		return &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: clusterMessage(r)}}
	case *catalog.Repository:
		return &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: repositoryMessage(r)}}
	case *catalog.Service:
		return &fleetv1.Document{Object: &fleetv1.Document_Service{Service: serviceMessage(r)}}
	case *catalog.User:
		return &fleetv1.Document{Object: &fleetv1.Document_User{User: userMessage(r)}}
	case *catalog.AccessBinding:
		return &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: bindingMessage(r)}}
	}
	return nil
}

// tombstoneMessage returns the document of a deleted object, which has a name and nothing else.
func tombstoneMessage(key catalog.Key) *fleetv1.Document {
	meta := &typev1.Metadata{Name: key.Name}
	switch key.Kind {
	case catalog.KindCluster:
		return &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: meta}}}
	case catalog.KindRepository:
		return &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{Metadata: meta}}}
	case catalog.KindService:
		return &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{Metadata: meta}}}
	case catalog.KindUser:
		return &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: meta}}}
	case catalog.KindAccessBinding:
		return &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{Metadata: meta}}}
	case catalog.KindToken: // is no object
	}
	return nil
}

// clusterMessage returns nil if the record is of another kind; so do repositoryMessage and
// serviceMessage.
func clusterMessage(r fleet.Record) *fleetv1.Cluster {
	c, ok := r.Object.(*catalog.Cluster)
	if !ok {
		return nil
	}
	status := r.Cluster
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
		},
	}
}

// repositoryMessage never carries the credential, nor the proxy's password.
func repositoryMessage(r fleet.Record) *fleetv1.Repository {
	repository, ok := r.Object.(*catalog.Repository)
	if !ok {
		return nil
	}
	return &fleetv1.Repository{
		Metadata: metadataMessage(&repository.Metadata),
		Spec:     upstreamwire.SpecMessage(repository.Spec.Definition),
		Status:   mirrorMessage(r.Mirror),
	}
}

func mirrorMessage(m *catalog.Mirror) *gitcachev1.RepositoryState {
	if m == nil {
		return nil
	}
	return &gitcachev1.RepositoryState{
		Phase:         gitcachev1.RepositoryPhase(gitcachev1.RepositoryPhase_value["REPOSITORY_PHASE_"+string(m.Phase)]),
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
	}
}

func serviceMessage(r fleet.Record) *fleetv1.Service {
	s, ok := r.Object.(*catalog.Service)
	if !ok {
		return nil
	}
	return &fleetv1.Service{
		Metadata: metadataMessage(&s.Metadata),
		Spec:     serviceSpecMessage(s.Spec),
		Status:   serviceStatusMessage(s, r.Service),
	}
}

func serviceSpecMessage(spec catalog.ServiceSpec) *fleetv1.ServiceSpec {
	m := &fleetv1.ServiceSpec{Cluster: spec.Cluster, Sources: wire.Each(spec.Sources, catalogwire.SourceMessage), Config: configMessage(spec.Config)}
	policywire.SetWanted(m, spec.Wanted())
	return m
}

func serviceStatusMessage(s *catalog.Service, status fleet.ServiceStatus) *fleetv1.ServiceStatus {
	m := &fleetv1.ServiceStatus{
		Phase:              typev1.ServicePhase(typev1.ServicePhase_value["SERVICE_PHASE_"+string(status.Phase)]),
		Problem:            catalogwire.ProblemMessage(status.Problem),
		Synced:             status.Synced,
		ObservedGeneration: status.ObservedGeneration,
		SyncRequest:        s.SyncRequest,
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
	shown := config.Shown()
	if shown == nil {
		return nil
	}
	m := &fleetv1.ServiceConfig{Values: shown.Values, Secrets: make(map[string]string, len(shown.Secrets))}
	for key := range shown.Secrets {
		m.Secrets[key] = ""
	}
	return m
}
