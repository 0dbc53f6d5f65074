// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

type revisionRow struct {
	bun.BaseModel `bun:"table:service_revisions,alias:rv"`
	ServiceUID    string                   `bun:"service_uid,pk"`
	Number        int64                    `bun:"number,pk"`
	Revision      column[catalog.Revision] `bun:"revision"`
}

func (r *revisionRow) revision() catalog.Revision {
	r.Revision.v.Number = r.Number
	return r.Revision.v
}

// revisionKey names one row.
type revisionKey struct {
	serviceUID string
	number     int64
}

// advance notes in the service's history what a report says.
func (in *intake) advance(state *serviceState, service *catalog.ServiceReport, report catalog.AgentReport) {
	if service == nil {
		return
	}
	for _, next := range state.Latest.v.Advance(service, report.ReceivedAt) {
		key := revisionKey{serviceUID: state.UID, number: next.Number}
		in.revisions[key] = &revisionRow{ServiceUID: key.serviceUID, Number: key.number, Revision: columnOf(next)}
		state.Latest.v = next
	}
}

func (in *intake) writeRevisions(ctx context.Context) error {
	rows := make([]*revisionRow, 0, len(in.revisions))
	var many []string // services that may have more than are kept
	for key, row := range in.revisions {
		rows = append(rows, row)
		if key.number > catalog.MaxRevisions {
			many = append(many, key.serviceUID)
		}
	}
	err := replaceAll(ctx, in.tx, rows, "service_uid, number", "revision")
	if err != nil || len(many) == 0 {
		return err
	}
	_, err = in.sql.NewRaw(`DELETE FROM service_revisions WHERE service_uid IN (?) AND number <= ? +
			(SELECT MAX(m.number) FROM service_revisions AS m WHERE m.service_uid = service_revisions.service_uid)`,
		bun.List(many), -catalog.MaxRevisions).Exec(ctx)
	return err
}

// Revisions implements catalog.History.
func (s *Store) Revisions(ctx context.Context, serviceUID string) ([]catalog.Revision, error) {
	var revisions []catalog.Revision
	latest := s.db.NewSelect().Where("service_uid = ?", serviceUID).Order("number DESC").Limit(catalog.MaxRevisions)
	err := list(ctx, latest, &revisions, (*revisionRow).revision)
	return revisions, translate("read revisions", err)
}
