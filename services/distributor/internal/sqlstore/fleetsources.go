// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// FleetSources keeps what fleet sources did, and what people asked of them.
type FleetSources struct {
	leadTable

	store *Store
}

var (
	_ election.Store   = (*FleetSources)(nil)
	_ fleetsync.Store  = (*FleetSources)(nil)
	_ fleetsync.States = (*FleetSources)(nil)
)

// FleetSourcesOf returns the part of a store about fleet sources.
func FleetSourcesOf(s *Store) *FleetSources {
	return &FleetSources{leadTable: leadTable{s.db, "fleet_source_lead", "fleet sources"}, store: s}
}

type fleetSourceStateRow struct {
	bun.BaseModel `bun:"table:fleet_source_states,alias:fss"`
	SourceUID     string                       `bun:"source_uid,pk"`
	State         column[fleetsync.State]      `bun:"state"`
	Documents     column[[]fleetsync.Document] `bun:"documents"`
	Asked         int64                        `bun:"asked"`
	Confirmed     string                       `bun:"confirmed"`
}

// Fenced implements fleetsync.Store.
func (s *FleetSources) Fenced(term int64) catalog.Editable { return fencedEdits{s, term} }

// fencedEdits is the catalog for edits of one term.
type fencedEdits struct {
	sources *FleetSources
	term    int64
}

// Edit implements catalog.Editable.
func (f fencedEdits) Edit(ctx context.Context, fn func(ctx context.Context, tx catalog.Tx) error) error {
	return f.sources.store.edit(ctx, func(ctx context.Context, t *tx) error {
		if err := f.sources.hold(ctx, t.sql, f.term); err != nil {
			return err
		}
		return fn(ctx, t)
	})
}

// Orders implements fleetsync.Store.
func (s *FleetSources) Orders(ctx context.Context) (map[string]fleetsync.Order, error) {
	var rows []*fleetSourceStateRow
	err := s.store.db.NewSelect().Model(&rows).Column("source_uid", "asked", "confirmed").Scan(ctx)
	orders := make(map[string]fleetsync.Order, len(rows))
	for _, row := range rows {
		orders[row.SourceUID] = fleetsync.Order{Asked: row.Asked, Confirmed: row.Confirmed}
	}
	return orders, translate("read orders of fleet sources", err)
}

// Save implements fleetsync.Store.
func (s *FleetSources) Save(ctx context.Context, term int64, uid string, state fleetsync.State, documents []fleetsync.Document) error {
	return s.write(ctx, "write state of fleet source", term, func(ctx context.Context, tx bun.Tx) error {
		isThere, err := tx.NewSelect().Table("fleet_sources").Where("uid = ?", uid).Exists(ctx)
		if err != nil || !isThere {
			return err
		}
		row := &fleetSourceStateRow{SourceUID: uid, State: columnOf(state), Documents: columnOf(documents)}
		query := tx.NewInsert().Model(row).On("CONFLICT (source_uid) DO UPDATE").Set("state = EXCLUDED.state")
		if documents != nil {
			query = query.Set("documents = EXCLUDED.documents")
		}
		_, err = query.Exec(ctx)
		return err
	})
}

// States implements fleetsync.States.
func (s *FleetSources) States(ctx context.Context, uids []string) (map[string]fleetsync.State, error) {
	states := make(map[string]fleetsync.State, len(uids))
	for chunk := range slices.Chunk(uids, maxKeys) {
		var rows []*fleetSourceStateRow
		err := s.store.db.NewSelect().Model(&rows).Column("source_uid", "state").Where("source_uid IN (?)", bun.List(chunk)).Scan(ctx)
		if err != nil {
			return nil, translate("read states of fleet sources", err)
		}
		for _, row := range rows {
			states[row.SourceUID] = row.State.v
		}
	}
	return states, nil
}

// Documents implements fleetsync.States.
func (s *FleetSources) Documents(ctx context.Context, uid string) ([]fleetsync.Document, error) {
	row := new(fleetSourceStateRow)
	err := s.store.db.NewSelect().Model(row).Column("documents").Where("source_uid = ?", uid).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return row.Documents.v, translate("read documents of fleet source", err)
}

// Ask implements fleetsync.States.
func (s *FleetSources) Ask(ctx context.Context, uid string) (asked int64, err error) {
	return s.order(ctx, uid, nil)
}

// Confirm implements fleetsync.States.
func (s *FleetSources) Confirm(ctx context.Context, uid, digest string) error {
	_, err := s.order(ctx, uid, &digest)
	return err
}

func (s *FleetSources) order(ctx context.Context, uid string, confirmed *string) (asked int64, err error) {
	row := &fleetSourceStateRow{SourceUID: uid, Asked: 1}
	query := s.store.db.NewInsert().Model(row).On("CONFLICT (source_uid) DO UPDATE").Set("asked = fss.asked + 1")
	if confirmed != nil {
		row.Confirmed = *confirmed
		query = query.Set("confirmed = EXCLUDED.confirmed")
	}
	err = query.Returning("asked").Scan(ctx, &asked)
	return asked, translate("ask fleet source", err)
}
