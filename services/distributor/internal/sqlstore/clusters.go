// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type clusterRow struct {
	bun.BaseModel `bun:"table:clusters,alias:c"`
	ownedColumns
	Description    string                           `bun:"description"`
	Settings       column[syncpolicy.AgentSettings] `bun:"agent_settings"`
	AgentEndpoint  string                           `bun:"agent_endpoint"`
	PublicKey      []byte                           `bun:"public_key"`
	KeyGeneration  int64                            `bun:"key_generation"`
	LastSeenAt     int64                            `bun:"last_seen_at"`
	ConnectedUntil int64                            `bun:"connected_until"`
	Report         column[catalog.ClusterReport]    `bun:"report"`
	PlanVersion    string                           `bun:"plan_version"`
	Instance       string                           `bun:"instance"`
	Sequence       int64                            `bun:"sequence"`
	RemovalsHeldAt int64                            `bun:"removals_held_at"`
}

// storedClusters are written without their agents, which enrol and report.
var storedClusters = storage[*catalog.Cluster, *clusterRow]{
	kind: catalog.KindCluster, columns: []string{"description", "agent_settings", "agent_endpoint"},
	row: func(c *catalog.Cluster) *clusterRow {
		return &clusterRow{Description: c.Spec.Description, AgentEndpoint: c.Spec.AgentEndpoint, Settings: columnOf(c.Spec.Settings)}
	},
	object:  (*clusterRow).cluster,
	changed: func(c *catalog.Changes) *[]*catalog.Cluster { return &c.Clusters },
}

func (r *clusterRow) cluster() *catalog.Cluster {
	return &catalog.Cluster{
		Metadata: r.metadata(),
		Spec:     catalog.ClusterSpec{Description: r.Description, Settings: r.Settings.v, AgentEndpoint: r.AgentEndpoint},
		Agent: catalog.Agent{
			PublicKey:      r.PublicKey,
			KeyGeneration:  r.KeyGeneration,
			LastSeenAt:     timeOf(r.LastSeenAt),
			ConnectedUntil: timeOf(r.ConnectedUntil),
			Report:         r.Report.v,
			PlanVersion:    r.PlanVersion,
			Instance:       r.Instance,
			Sequence:       uint64(r.Sequence),
		},
		RemovalsHeldSince: timeOf(r.RemovalsHeldAt),
	}
}
