// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
)

// facts joins what the API server and what the plan know of the cluster. It is safe for concurrent
// use.
type facts struct {
	manifest.Cluster

	planned atomic.Pointer[plan.Facts] // nil before the first plan
}

// set replaces the facts of the plan, and reports whether they changed. The first ones have: an
// earlier process may have known others.
func (f *facts) set(planned plan.Facts) bool {
	before := f.planned.Swap(&planned)
	return before == nil || before.Name != planned.Name ||
		!maps.Equal(before.Labels, planned.Labels) || !maps.Equal(before.Annotations, planned.Annotations)
}

// ClusterFacts implements manifest.Cluster.
func (f *facts) ClusterFacts(ctx context.Context) (render.ClusterFacts, error) {
	all, err := f.Cluster.ClusterFacts(ctx)
	if planned := f.planned.Load(); planned != nil {
		all.Name, all.Labels, all.Annotations = planned.Name, planned.Labels, planned.Annotations
	}
	return all, err
}

// readers are the readers of services, for the renderer, which the executor is made with.
type readers struct{ *execute.Executor }
