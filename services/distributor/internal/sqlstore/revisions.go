// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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

func (r *derivedRevisionRow) value() catalog.Revision {
	r.Revision.v.Number = r.Number
	return r.Revision.v
}

// revisionKey names one row.
type revisionKey struct {
	serviceUID string
	number     int64
}

// advance notes the content of a report in the service's history.
func (in *intake) advance(state *serviceState, service *catalog.ServiceReport, report catalog.AgentReport) {
	if service == nil {
		return
	}
	revisions := state.Latest.v.Advance(service, report.ReceivedAt)
	in.milestones = append(in.milestones, catalog.Milestones(state.Latest.v, revisions, report.ReceivedAt, service.Trigger)...)
	for _, next := range revisions {
		key := revisionKey{serviceUID: state.UID, number: next.Number}
		row := &revisionRow{ServiceUID: key.serviceUID, Number: key.number, Revision: columnOf(next)}
		if state.GlobalUID != "" {
			in.derivedRevisions[key] = row
		} else {
			in.revisions[key] = row
		}
		state.Latest.v = next
	}
}

func (in *intake) writeRevisions(ctx context.Context) error {
	rows, many := slices.Collect(maps.Values(in.revisions)), overfull(in.revisions)
	err := replaceAll(ctx, in.tx.sql, rows, "service_uid, number", "revision")
	if err != nil {
		return err
	}
	if err := in.dropRevisions(ctx, "service_revisions", many); err != nil {
		return err
	}
	derived := make([]*derivedRevisionRow, 0, len(in.derivedRevisions))
	for _, row := range in.derivedRevisions {
		derived = append(derived, &derivedRevisionRow{ServiceUID: row.ServiceUID, Number: row.Number, Revision: row.Revision})
	}
	if err := replaceAll(ctx, in.tx.sql, derived, "service_uid, number", "revision"); err != nil {
		return err
	}
	return in.dropRevisions(ctx, "derived_revisions", overfull(in.derivedRevisions))
}

// overfull returns the services that may have more revisions than are kept.
func overfull(revisions map[revisionKey]*revisionRow) (uids []string) {
	for key := range revisions {
		if key.number > catalog.MaxRevisions {
			uids = append(uids, key.serviceUID)
		}
	}
	return uids
}

// dropRevisions drops the oldest revisions of services that have more than are kept.
func (in *intake) dropRevisions(ctx context.Context, table string, uids []string) error {
	if len(uids) == 0 {
		return nil
	}
	_, err := in.tx.sql.NewRaw(`DELETE FROM ? WHERE service_uid IN (?) AND number <= ? +
			(SELECT MAX(m.number) FROM ? AS m WHERE m.service_uid = ?.service_uid)`,
		bun.Ident(table), bun.List(uids), -catalog.MaxRevisions, bun.Ident(table), bun.Ident(table)).Exec(ctx)
	return err
}

// Revisions implements catalog.History.
func (s *Store) Revisions(ctx context.Context, serviceUID string) ([]catalog.Revision, error) {
	var revisions []catalog.Revision
	latest := s.db.NewSelect().Where("service_uid = ?", serviceUID).Order("number DESC").Limit(catalog.MaxRevisions)
	err := list(ctx, latest, &revisions, (*revisionRow).revision)
	if err != nil || len(revisions) > 0 {
		return revisions, translate("read revisions", err)
	}
	derived := s.db.NewSelect().Where("service_uid = ?", serviceUID).Order("number DESC").Limit(catalog.MaxRevisions)
	err = list(ctx, derived, &revisions, (*derivedRevisionRow).value)
	return revisions, translate("read revisions of derived service", err)
}
