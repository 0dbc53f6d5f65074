// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type projectRow struct {
	bun.BaseModel `bun:"table:projects,alias:p"`
	metaColumns
	specColumns[catalog.ProjectSpec]
}

var storedProjects = inJSON[projectRow](catalog.KindProject,
	func(p *catalog.Project) *catalog.ProjectSpec { return &p.Spec },
	func(c *catalog.Changes) *[]*catalog.Project { return &c.Projects })

// fleetSourceRow is a stored fleet source. Repository follows from the spec.
type fleetSourceRow struct {
	bun.BaseModel `bun:"table:fleet_sources,alias:fs"`
	ownedColumns
	Repository string `bun:"repository"`
	specColumns[catalog.FleetSourceSpec]
}

var storedFleetSources = storage[*catalog.FleetSource, *fleetSourceRow]{
	kind: catalog.KindFleetSource, columns: []string{"repository", "spec"},
	row: func(f *catalog.FleetSource) *fleetSourceRow {
		return &fleetSourceRow{Repository: f.Spec.Source.Repository, specColumns: specColumns[catalog.FleetSourceSpec]{columnOf(f.Spec)}}
	},
	object: func(r *fleetSourceRow) *catalog.FleetSource {
		return &catalog.FleetSource{Metadata: r.metadata(), Spec: r.Spec.v}
	},
	changed: func(c *catalog.Changes) *[]*catalog.FleetSource { return &c.FleetSources },
}
