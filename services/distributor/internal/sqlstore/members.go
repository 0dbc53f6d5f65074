// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// derivedRow is the stored state of a derived service.
type derivedRow struct {
	bun.BaseModel      `bun:"table:derived_services,alias:ds"`
	UID                string                     `bun:"uid,pk"`
	GlobalUID          string                     `bun:"global_uid"`
	ClusterUID         string                     `bun:"cluster_uid"`
	SyncRequest        string                     `bun:"sync_request"`
	Exception          column[*catalog.Exception] `bun:"exception"`
	Departure          column[*catalog.Departure] `bun:"departure"`
	Report             string                     `bun:"report"`
	Entry              string                     `bun:"entry"`
	ObservedGeneration int64                      `bun:"observed_generation"`
	Revision           int64                      `bun:"revision"`
	Global             string                     `bun:"global,scanonly"`
	Cluster            string                     `bun:"cluster,scanonly"`
}

type derivedRevisionRow struct {
	bun.BaseModel `bun:"table:derived_revisions,alias:dr"`
	ServiceUID    string                   `bun:"service_uid,pk"`
	Number        int64                    `bun:"number,pk"`
	Revision      column[catalog.Revision] `bun:"revision"`
}

// noReport is the stored form of a report that there is not.
const noReport = "null"

// putDerived stores the request for a sync of a derived service. Of its spec there is nothing to store.
func putDerived(ctx context.Context, t *tx, service *catalog.Service) error {
	row, err := newDerivedRow(ctx, t.sql, t.revision, service)
	if err != nil {
		return err
	}
	row.SyncRequest = service.SyncRequest
	return replace(ctx, t.sql, row, "uid", "sync_request", "revision")
}

// Except implements catalog.Tx.
func (t *tx) Except(ctx context.Context, service *catalog.Service, verbs []string, decide func(*catalog.Exception)) (*catalog.Exception, error) {
	row, err := newDerivedRow(ctx, t.sql, t.revision, service)
	if err != nil {
		return nil, translate("write exception", err)
	}
	known := new(derivedRow)
	err = t.sql.NewSelect().Model(known).Column("exception").Where("uid = ?", row.UID).Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, translate("read exception", err)
	}
	next := new(catalog.Exception)
	if known.Exception.v != nil {
		*next = *known.Exception.v
	}
	decide(next)
	t.dirty = true
	for _, verb := range verbs {
		t.note(catalog.Change{Verb: verb, Kind: string(catalog.KindService), Name: service.Name, UID: service.UID, Cluster: service.Spec.Cluster})
	}
	row.Exception = columnOf(next)
	return next, translate("write exception", replace(ctx, t.sql, row, "uid", "exception", "revision"))
}

// newDerivedRow returns the row of a derived service that has none yet. Error:
// *catalog.NotFoundError if it is no longer derived.
func newDerivedRow(ctx context.Context, db bun.IDB, revision int64, service *catalog.Service) (*derivedRow, error) {
	row := &derivedRow{UID: service.UID, GlobalUID: service.Derived.GlobalUID, Report: noReport, Revision: revision}
	err := db.NewSelect().Table("clusters").Column("uid").Where("name = ?", service.Spec.Cluster).Scan(ctx, &row.ClusterUID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &catalog.NotFoundError{Key: service.Key()}
	}
	if err != nil {
		return nil, err
	}
	known, err := db.NewSelect().Table("global_services").Where("uid = ?", row.GlobalUID).Exists(ctx)
	if err != nil {
		return nil, err
	}
	if !known || row.UID != catalog.DerivedUID(row.GlobalUID, row.ClusterUID) {
		return nil, &catalog.NotFoundError{Key: service.Key()} // another replica has deleted it meanwhile
	}
	return row, nil
}

// withPlaces adds the names that a derived service is named by.
func withPlaces(query *bun.SelectQuery) *bun.SelectQuery {
	return query.ColumnExpr("ds.*, gs.name AS global, c.name AS cluster").
		Join("JOIN global_services AS gs ON gs.uid = ds.global_uid").Join("JOIN clusters AS c ON c.uid = ds.cluster_uid")
}

func (r *derivedRow) stored() catalog.StoredReport {
	report, damage := decodeReport(r.Report)
	return catalog.StoredReport{
		Service: objectname.ServicePath(r.Global, r.Cluster), ServiceUID: r.UID, Report: report, Damage: damage,
		Entry: r.Entry, ObservedGeneration: r.ObservedGeneration,
	}
}

// isRequested is the condition that people asked for something of a derived service, or that it departed.
// The index derived_services_requested has the same words.
const isRequested = "(ds.sync_request <> '' OR ds.exception NOT IN ('', 'null') OR ds.departure NOT IN ('', 'null'))"

// collectDerived reads what has changed of derived services: at first only what does not come from
// reports.
func collectDerived(ctx context.Context, tx bun.Tx, since int64, changes *catalog.Changes) error {
	query := withPlaces(tx.NewSelect())
	if since == 0 {
		query = query.Where(isRequested)
	} else {
		query = query.Where("ds.revision > ?", since)
	}
	var reports []catalog.StoredReport
	err := list(ctx, query, &reports, func(row *derivedRow) catalog.StoredReport {
		report := row.stored()
		if row.SyncRequest != "" || row.Exception.v != nil || row.Departure.v != nil {
			request := catalog.SyncRequest{
				Service: report.Service, ServiceUID: row.UID, GlobalUID: row.GlobalUID, Request: row.SyncRequest, Exception: row.Exception.v,
			}
			if row.Departure.v != nil {
				request.Departure = *row.Departure.v
			}
			changes.Requests = append(changes.Requests, request)
		}
		return report
	})
	if since > 0 {
		changes.Reports = append(changes.Reports, reports...)
	}
	return err
}

// DerivedReports implements catalog.Log.
func (s *Store) DerivedReports(ctx context.Context, clusterUIDs []string) (reports []catalog.StoredReport, err error) {
	if len(clusterUIDs) == 0 {
		return nil, nil
	}
	query := withPlaces(s.reads.NewSelect()).Where("ds.cluster_uid IN (?)", bun.List(clusterUIDs))
	return reports, translate("read reports of derived services", list(ctx, query, &reports, (*derivedRow).stored))
}

// loadDerived reads what reports of derived services may change. Which services there may be follows from
// the uids of global services and clusters, so an agent cannot name one of another cluster.
func (in *intake) loadDerived(ctx context.Context, reports []catalog.AgentReport) error {
	var globals []string
	if err := in.tx.sql.NewSelect().Table("global_services").Column("uid").Scan(ctx, &globals); err != nil || len(globals) == 0 {
		return translate("read global services", err)
	}
	uids := []string{}
	for _, report := range reports {
		named := make(map[string]bool, len(report.Services))
		for _, service := range report.Services {
			named[service.ServiceUID] = true
		}
		for _, global := range globals {
			uid := catalog.DerivedUID(global, report.ClusterUID)
			if !named[uid] && !report.Full || in.services[uid] != nil {
				continue
			}
			uids = append(uids, uid)
			state := &serviceState{UID: uid, ClusterUID: report.ClusterUID, GlobalUID: global}
			in.services[uid] = state
		}
	}
	if len(uids) == 0 {
		return nil
	}
	var states []*serviceState
	err := in.tx.sql.NewRaw(`SELECT d.uid, d.cluster_uid, d.global_uid, d.report, d.entry, d.observed_generation,
			COALESCE(rv.number, 0) AS number, COALESCE(rv.revision, '') AS revision
		FROM derived_services AS d
		LEFT JOIN derived_revisions AS rv ON rv.service_uid = d.uid
			AND rv.number = (SELECT MAX(m.number) FROM derived_revisions AS m WHERE m.service_uid = d.uid)
		WHERE d.uid IN (?)`, bun.List(uids)).Scan(ctx, &states)
	if err != nil {
		return translate("read reports of derived services", err)
	}
	for _, state := range states {
		state.Latest.v.Number = state.Number
		in.services[state.UID] = state
	}
	return nil
}

// writeDerived writes the reports of derived services, and before their revisions, which refer to them.
func (in *intake) writeDerived(ctx context.Context) error {
	rows := make([]*derivedRow, 0, len(in.derived))
	for _, row := range in.derived {
		rows = append(rows, row)
	}
	return replaceAll(ctx, in.tx.sql, rows, "uid", "report", "entry", "observed_generation", "revision")
}
