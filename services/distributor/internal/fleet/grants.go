// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"time"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// grantKey is what a grant is about.
type grantKey struct {
	clusterUID string
	digest     digest.Digest
}

// takeGrants takes over grants, and forgets those that have ended. The caller holds the lock.
func (v *View) takeGrants(grants []catalog.Grant) {
	if len(grants) == 0 {
		return
	}
	at := now()
	for _, grant := range grants {
		v.grants[grantKey{grant.ClusterUID, grant.Digest}] = grant
	}
	maps.DeleteFunc(v.grants, func(_ grantKey, grant catalog.Grant) bool { return ended(grant, at) })
}

func ended(grant catalog.Grant, at time.Time) bool { return !at.Before(grant.ExpiresAt) }

// granted finds a digest among what the cluster was granted.
func (v *View) granted(cluster string, d digest.Digest) (plan.Bundle, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	owner := v.clusters[cluster]
	if owner == nil {
		return plan.Bundle{}, false
	}
	grant, ok := v.grants[grantKey{owner.UID, d}]
	if !ok || ended(grant, now()) {
		return plan.Bundle{}, false
	}
	return plan.Bundle{Digest: grant.Digest, Commit: grant.Commit, Source: grant.Source, Subpath: grant.Subpath}, true
}
