// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// projectRow is a stored project. Rows of clusters, repositories and services name theirs in a column
// project, for counting; it follows from their name, which is their path.
type projectRow struct {
	bun.BaseModel `bun:"table:projects,alias:p"`
	metaColumns
	Spec column[catalog.ProjectSpec] `bun:"spec"`
}

func (r *projectRow) project() *catalog.Project {
	return &catalog.Project{Metadata: r.metadata(), Spec: r.Spec.v}
}

// Count implements catalog.Tx.
func (t *tx) Count(ctx context.Context, project string, kind catalog.Kind) (int, error) {
	n, err := t.sql.NewSelect().Model(newRow(kind)).Where("project = ?", project).Count(ctx)
	return int(n), translate("count objects of a project", err)
}

// held returns some of the objects of a project.
func (t *tx) held(ctx context.Context, project string) ([]catalog.Key, error) {
	var all []catalog.Key
	for _, kind := range []catalog.Kind{catalog.KindCluster, catalog.KindRepository, catalog.KindService, catalog.KindNotifier, catalog.KindConfigSet, catalog.KindGlobalService, catalog.KindRolloutPolicy, catalog.KindFleetSource} {
		var paths []string
		query := t.sql.NewSelect().Model(newRow(kind)).Column("name").Where("project = ?", project).Order("name").Limit(maxDependents)
		if err := query.Scan(ctx, &paths); err != nil {
			return nil, translate("list objects of a project", err)
		}
		for _, path := range paths {
			all = append(all, catalog.Key{Kind: kind, Name: path})
		}
	}
	return all, nil
}
