// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Preview returns what a global service would select and derive if it were stored with the
// other objects, for a dry run. It evaluates at most as much as a review does: beyond that the
// problem reports it, and the counts are of the clusters until then.
func (all Globals) Preview(g *catalog.GlobalService, others ...catalog.Object) GlobalStatus {
	c := all.Catalog
	changes := &catalog.Changes{Clusters: only[*catalog.Cluster](others), Projects: only[*catalog.Project](others)}
	c.mu.RLock()
	on := basisLocked(c.contents)
	c.mu.RUnlock()
	on.apply(changes)
	clusters := make([]*catalog.Cluster, 0, len(on.clusters))
	for _, cluster := range on.clusters {
		clusters = append(clusters, cluster)
	}
	slices.SortFunc(clusters, func(a, b *catalog.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	compiled, err := derive.Compile(g)
	if err != nil {
		return GlobalStatus{Problem: &catalog.Problem{Reason: reason.DerivationFailed, Message: err.Error()}}
	}
	own := on.projects[objectname.Project(g.Name)]
	ctx := expression.WithBudget(context.Background(), reviewUnits)
	var s GlobalStatus
	for i, cluster := range clusters {
		verdict := on.verdict(ctx, compiled, cluster)
		if expression.IsSpent(ctx) {
			s.Problem = &catalog.Problem{Reason: reason.DerivationTooExpensive, Message: fmt.Sprintf(
				"the expressions cost too much for a dry run, after %d of %d clusters", i, len(clusters))}
			return s
		}
		if !verdict.isSelected && verdict.err == nil {
			continue
		}
		if own == nil || !own.MayUseCluster(on.projects[objectname.Project(cluster.Name)], cluster) {
			s.Forbidden++
			continue
		}
		s.Clusters++
		if service, ok := c.Service(g.DerivedPath(cluster.Name)); ok && service.Derived == nil {
			s.Conflicts++
			s.Problem = cmp.Or(s.Problem, conflictOf(service))
			continue
		}
		if err := verdict.err; err != nil {
			s.Failing++
			s.Problem = cmp.Or(s.Problem, problemOf(derive.Failure(g, cluster, err)))
		} else if err := own.Admits(verdict.derived.Service()); err != nil {
			s.Failing++
			s.Problem = cmp.Or(s.Problem, problemOf(derive.Failure(g, cluster, err)))
		}
	}
	return s
}
