// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// LookOnce returns the view of every service under a policy now, in the plainest way: the reference
// for looking again.
func (r Rollouts) LookOnce() drive.Sight {
	v := r.View
	sight := drive.Sight{Policies: Policies{v.Catalog}.inOrder(), Members: map[string][]drive.Seen{}}
	isCovered := map[string]bool{}
	r.eachCovered(sight.Policies, func(policy *catalog.RolloutPolicy, service *catalog.Service, cluster *catalog.Cluster) {
		isCovered[service.UID] = true
		sight.Members[policy.UID] = append(sight.Members[policy.UID], r.see(service, cluster))
	})
	for _, known := range v.admitted.all() {
		if known.Content != nil && !isCovered[known.ServiceUID] {
			sight.Uncovered = append(sight.Uncovered, known)
		}
	}
	return sight
}

// GlobalProblem returns what lists show to be wrong with a global service, or nil.
func GlobalProblem(v *View, g *catalog.GlobalService) *catalog.Problem {
	return Globals{v.Catalog}.problem(g)
}

// NewSizesOf returns Sizes for rollouts of another size.
func NewSizesOf(v *View, most int) *Sizes {
	s := NewSizes(v)
	s.most = most
	return s
}

// TakeTurn waits for the turn of a change, and returns what ends it.
func TakeTurn(v *View) (done func()) { return v.writing.take() }
