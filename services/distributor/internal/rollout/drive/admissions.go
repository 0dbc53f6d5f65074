// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// admissions returns what follows from decisions.
func (r *Record) admissions(decisions []rollout.Decision) []catalog.Admission {
	if len(decisions) == 0 {
		return nil
	}
	latest := map[string]rollout.DecisionKind{}
	for _, d := range decisions {
		if d.Kind == rollout.Admit || d.Kind == rollout.Withdraw {
			latest[d.Member] = d.Kind
		}
	}
	var all []catalog.Admission
	for _, p := range r.Run.Members {
		kind, ok := latest[p.UID]
		if !ok {
			continue
		}
		key := p.To
		if kind == rollout.Withdraw {
			key = p.From
		}
		release := r.Start.Release(key)
		all = append(all, catalog.Admission{ServiceUID: p.UID, Service: p.Name, Run: r.ID, Content: release.Content, Spec: release.Spec, Config: release.Config})
	}
	return all
}
