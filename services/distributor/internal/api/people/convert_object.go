// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/internal/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/upstream/upstreamwire"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
)

func clusterOf(m *fleetv1.Cluster) (*catalog.Cluster, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	settings, err := policywire.Settings(m.GetSpec().GetAgent())
	if err != nil {
		return nil, fielderr.Within("spec.agent", err)
	}
	return &catalog.Cluster{
		Metadata: metadata,
		Spec: catalog.ClusterSpec{
			Description: m.GetSpec().GetDescription(), Settings: settings, AgentEndpoint: m.GetSpec().GetAgentEndpoint(),
		},
	}, nil
}

// repositoryOf reads a credential without anything to show, and an empty webhook secret, as the wish
// to remove the stored ones.
func repositoryOf(m *fleetv1.Repository) (*catalog.Repository, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	wanted, err := upstreamwire.Definition(spec)
	if err != nil {
		return nil, fielderr.Within("spec", err)
	}
	if err := parseChartRepositories(&wanted, m.GetMetadata().GetProject()); err != nil {
		return nil, err
	}
	wanted.PollInterval = wanted.PollInterval.Truncate(time.Microsecond) // SQL keeps no smaller units
	return &catalog.Repository{Metadata: metadata, Spec: catalog.RepositorySpec{
		Definition:          wanted,
		RemoveCredential:    spec.GetCredential() != nil && wanted.Credential.IsZero(),
		RemoveWebhookSecret: spec != nil && spec.WebhookSecret != nil && wanted.WebhookSecret == "",
	}}, nil
}

func serviceOf(m *fleetv1.Service) (*catalog.Service, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	options, err := policywire.Wanted(spec)
	if err != nil {
		return nil, fielderr.Within("spec", err)
	}
	service := &catalog.Service{Metadata: metadata, Spec: catalog.ServiceSpec{
		Cluster: spec.GetCluster(), Sources: wire.Each(spec.GetSources(), catalogwire.SourceOf), Options: &options, Config: configOf(spec.GetConfig()),
		ConfigSets: spec.GetConfigSets(),
	}}
	if err := parseReferences(&service.Spec, m.GetMetadata().GetProject()); err != nil {
		return nil, err
	}
	service.Name = objectname.ServicePath(service.Name, service.Spec.Cluster)
	return service, nil
}

func configOf(m *fleetv1.ServiceConfig) *catalog.Config {
	if m == nil {
		return nil
	}
	config := &catalog.Config{Values: m.GetValues(), Secrets: make(map[string]secret.Text, len(m.GetSecrets())), References: m.GetReferences(), Restart: m.GetRestart()}
	for key, text := range m.GetSecrets() {
		config.Secrets[key] = secret.Text(text)
	}
	return config
}
