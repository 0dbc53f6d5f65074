// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
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

func clusterMessage(c *catalog.Cluster, status fleet.ClusterStatus) *fleetv1.Cluster {
	return &fleetv1.Cluster{
		Metadata: MetadataMessage(&c.Metadata),
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
			AgentSkew:       skewMessage(status.AgentSkew),

			RemovalsHeldSince: catalogwire.Timestamp(c.RemovalsHeldSince),
		},
	}
}

func skewMessage(skew *problems.Skew) *fleetv1.AgentSkew {
	if skew == nil {
		return nil
	}
	return &fleetv1.AgentSkew{Newer: skew.IsNewer, Message: skew.Message}
}
