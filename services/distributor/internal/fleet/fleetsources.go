// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"math"

	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Sources is the view for fleet sources. It is safe for concurrent use.
type Sources struct{ View *View }

var _ fleetsync.Fleet = Sources{}

// FleetSources implements fleetsync.Fleet.
func (s Sources) FleetSources() []*catalog.FleetSource {
	c := s.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.fleetSources.all()
}

// Managed implements fleetsync.Fleet. It visits every object, and holds the catalog's lock for a
// batch of them at a time.
func (s Sources) Managed(source catalog.SourceRef) []catalog.Object {
	var managed []catalog.Object
	for _, kind := range catalog.Kinds() {
		objects, _ := s.View.Catalog.list(Query{Kind: kind, Limit: math.MaxInt, Keep: func(object catalog.Object) bool {
			return object.Meta().Manager == source
		}})
		managed = append(managed, objects...)
	}
	return managed
}

// Version implements fleetsync.Fleet.
func (s Sources) Version(key catalog.Key) int64 {
	object := s.View.Catalog.find(key)
	if object == nil {
		return 0
	}
	return object.Meta().ResourceVersion
}

// Refresh implements fleetsync.Fleet.
func (s Sources) Refresh(ctx context.Context) error { return s.View.Refresh(ctx) }
