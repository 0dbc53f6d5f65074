// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// GuardedReports stores reports, and in the same transaction which clusters of global services leave
// by them, and which are held. It is safe for concurrent use.
type GuardedReports struct {
	Store   *Store
	Members catalog.Members
	// Reached is called with what stored reports add to revisions. Nil: it is not called.
	Reached func(ctx context.Context, milestones []catalog.Milestone)
}

// SaveReports is catalog.Reports'.
func (g GuardedReports) SaveReports(ctx context.Context, reports []catalog.AgentReport) ([]catalog.Receipt, error) {
	receipts, milestones, err := saveReports(ctx, g.Store, g.Members, reports)
	if len(milestones) > 0 && g.Reached != nil {
		g.Reached(ctx, milestones)
	}
	return receipts, err
}

// noMembers is for a store without global services.
type noMembers struct{}

func (noMembers) Judge(changes []catalog.FactsChange) [][]catalog.Judgement {
	return make([][]catalog.Judgement, len(changes))
}

// Departures implements catalog.Tx.
func (t *tx) Departures(ctx context.Context, globalUID string) (catalog.Departures, error) {
	rows, err := departed(ctx, t.sql, globalUID)
	departures := catalog.Departures{}
	for _, row := range rows {
		departures[row.UID] = *row.Departure.v
	}
	return departures, err
}

// EndDepartures implements catalog.Tx.
func (t *tx) EndDepartures(ctx context.Context, globalUID string) error {
	rows, err := departed(ctx, t.sql, globalUID)
	if err != nil || len(rows) == 0 {
		return err
	}
	for _, row := range rows {
		row.Departure, row.Revision = columnOf(&catalog.Departure{}), t.revision
	}
	t.dirty = true
	return translate("end departures", replaceAll(ctx, t.sql, rows, "uid", "departure", "revision"))
}

// departed returns the rows of the members of a global service that have left by what their agents
// reported, or are held.
func departed(ctx context.Context, db bun.IDB, globalUID string) ([]*derivedRow, error) {
	var rows []*derivedRow
	err := db.NewSelect().Model(&rows).Where("global_uid = ? AND departure NOT IN ('', 'null')", globalUID).Scan(ctx)
	rows = slices.DeleteFunc(rows, func(row *derivedRow) bool { return row.Departure.v == nil || row.Departure.v.State == "" })
	return rows, translate("read departures", err)
}

// writeDepartures writes what the reports of some clusters mean for the global services that select
// them. It comes before the reports are written, so that the rows of the clusters are as before.
func (in *intake) writeDepartures(ctx context.Context) error {
	if len(in.facts) == 0 {
		return nil
	}
	var clusters []*clusterRow
	err := in.tx.sql.NewSelect().Model(&clusters).Where("uid IN (?)", bun.List(slices.Sorted(maps.Keys(in.facts)))).Scan(ctx)
	if err != nil {
		return translate("read clusters", err)
	}
	slices.SortFunc(clusters, func(a, b *clusterRow) int { return cmp.Compare(a.Name, b.Name) })
	changes := make([]catalog.FactsChange, len(clusters))
	for i, row := range clusters {
		changes[i] = catalog.FactsChange{Before: row.cluster(), After: row.cluster()}
		changes[i].After.Agent.Report = in.facts[row.UID]
	}
	known, changed := map[string]catalog.Departures{}, []*derivedRow{}
	for i, judgements := range in.members.Judge(changes) {
		row := clusters[i]
		for _, judgement := range judgements {
			departures, ok := known[judgement.GlobalUID]
			if !ok {
				if departures, err = in.tx.Departures(ctx, judgement.GlobalUID); err != nil {
					return err
				}
				known[judgement.GlobalUID] = departures
			}
			uid := catalog.DerivedUID(judgement.GlobalUID, row.UID)
			next, isNew := in.depart(departures, judgement, uid)
			if !isNew {
				continue
			}
			departures[uid] = next
			changed = append(changed, &derivedRow{
				UID: uid, GlobalUID: judgement.GlobalUID, ClusterUID: row.UID, Departure: columnOf(&next), Report: noReport, Revision: in.tx.revision,
			})
		}
	}
	return translate("write departures", replaceAll(ctx, in.tx.sql, changed, "uid", "departure", "revision"))
}

// depart returns what a judgement means for one member, and whether that is news.
func (in *intake) depart(departures catalog.Departures, judgement catalog.Judgement, uid string) (next catalog.Departure, isNew bool) {
	hasDeparted := departures[uid].State != ""
	if judgement.IsMet || hasDeparted {
		return catalog.Departure{}, judgement.IsMet && hasDeparted
	}
	return catalog.Departure{State: judgement.Removal.Depart(departures, judgement.Members), Revision: in.tx.revision, At: catalog.Now()}, true
}
