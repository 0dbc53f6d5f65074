// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Connectivity counts clusters by whether their agents are connected to any replica.
type Connectivity struct {
	// Connected and Away have an agent, Unenrolled wait for one.
	Connected, Away, Unenrolled int
}

// Count returns the connectivity of the clusters of a catalog, as their statuses have it.
func (r *Presence) Count(c *Catalog) (n Connectivity) {
	c.mu.RLock()
	clusters := make([]*catalog.Cluster, 0, len(c.contents.clusters.objects))
	for _, cluster := range c.contents.clusters.objects {
		clusters = append(clusters, cluster)
	}
	c.mu.RUnlock()
	for _, cluster := range clusters {
		isConnected, _ := r.presenceOf(cluster)
		switch {
		case !cluster.Agent.Enrolled():
			n.Unenrolled++
		case isConnected:
			n.Connected++
		default:
			n.Away++
		}
	}
	return n
}

// Phases counts the services that agents reported on, by the latest phase. Every known phase is in it.
func (r *Records) Phases() map[catalog.Phase]int {
	n := map[catalog.Phase]int{}
	for _, phase := range []catalog.Phase{
		catalog.PhasePending, catalog.PhaseSyncing, catalog.PhaseProgressing, catalog.PhaseHealthy,
		catalog.PhaseDegraded, catalog.PhaseFailed, catalog.PhasePaused,
	} {
		n[phase] = 0
	}
	r.reports.mu.RLock()
	defer r.reports.mu.RUnlock()
	for phase, count := range r.reports.phases {
		if _, isKnown := n[phase]; isKnown { // an agent may report another one
			n[phase] = count
		}
	}
	return n
}
