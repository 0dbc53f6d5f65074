// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Fleet is this replica's view of the fleet; fleet.Rollouts implements it. It is safe for concurrent
// use.
type Fleet interface {
	// Refresh takes over what the store holds.
	Refresh(ctx context.Context) error
	// IsNeeded reports whether there are policies, or services that are held. It costs nothing.
	IsNeeded() bool
	// Revision is one of the catalog. A look after the next refresh has seen all edits up to it,
	// except edits of services that are behind.
	Revision() int64
	// Behind returns what reports whether a service may be of an earlier state of its global service.
	Behind() func(*catalog.Service) bool
	// Layers returns the uids of the sets of which configurations of services may be made, and of the projects
	// that list sets for them.
	Layers(services []*catalog.Service) []string
	// ClusterOf returns the cluster of a service as the service's project knows it; nil if it is gone.
	ClusterOf(service *catalog.Service) *catalog.Cluster
	// Watch returns a Watch that has seen nothing yet.
	Watch() Watch
	// Still runs look while the view takes nothing over from the store. It has announced the edits
	// that it took over before, so a look sees an edit of many services whole, or not at all. Edits
	// wait meanwhile.
	Still(look func())
}

// Watch reads the fleet again and again. It is for one goroutine.
type Watch interface {
	// Look returns the present view of every service under a policy. changed are the objects that were
	// announced since the last look, of which the view was refreshed after. If isAll, each service is
	// read, and there are no changes to report. The next look changes the members of the Sight.
	Look(changed []catalog.Key, isAll bool) Sight
}

// Sources asks upstreams. It is safe for concurrent use.
type Sources interface {
	// Resolve returns the content of a source. Errors tell why it cannot be resolved now, or at all.
	Resolve(ctx context.Context, source catalog.Source) (catalog.Snapshot, error)
}
