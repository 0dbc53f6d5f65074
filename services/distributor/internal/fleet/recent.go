// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import "github.com/leatdev/leat/services/distributor/internal/plan"

// Recent finds a version among the current plan of a cluster and the last that it replaced.
func (v *View) Recent(cluster, version string) (*plan.Plan, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p, ok := v.plans[cluster]
	if !ok {
		return nil, false
	}
	if p.current.Version == version {
		return p.current, true
	}
	for _, old := range p.recent {
		if old.Version == version {
			return old, true
		}
	}
	return nil, false
}
