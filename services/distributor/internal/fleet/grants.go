// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// grants are the bundles that clusters may read although no plan of theirs names them. It is safe
// for concurrent use.
type grants struct {
	mu    sync.RWMutex
	byKey map[grantKey]catalog.Grant
}

// grantKey names a grant. The cluster's uid keeps a cluster that was created again from inheriting
// it.
type grantKey struct {
	clusterUID string
	digest     digest.Digest
}

// add adds grants and forgets ended ones.
func (g *grants) add(granted []catalog.Grant) {
	if len(granted) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, grant := range granted {
		g.byKey[grantKey{grant.ClusterUID, grant.Digest}] = grant
	}
	at := catalog.Now()
	maps.DeleteFunc(g.byKey, func(_ grantKey, grant catalog.Grant) bool { return hasEnded(grant, at) })
}

// find returns the bundle of that digest if the cluster may read it.
func (g *grants) find(cluster *catalog.Cluster, d digest.Digest) (plan.Bundle, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	grant, ok := g.byKey[grantKey{cluster.UID, d}]
	if !ok || hasEnded(grant, catalog.Now()) {
		return plan.Bundle{}, false
	}
	return plan.Bundle{Digest: grant.Digest, Commit: grant.Commit, Source: grant.Source, Subpath: grant.Subpath}, true
}

func hasEnded(grant catalog.Grant, at time.Time) bool { return !at.Before(grant.ExpiresAt) }
