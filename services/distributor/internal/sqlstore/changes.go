// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// read runs fn on one state of the database.
func (s *Store) read(ctx context.Context, verb string, fn func(ctx context.Context, tx bun.Tx) error) error {
	options := &sql.TxOptions{}
	if s.postgres {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return translate(verb, s.db.RunInTx(ctx, options, fn))
}

// Changes implements catalog.Log.
func (s *Store) Changes(ctx context.Context, since int64) (catalog.Changes, error) {
	var changes catalog.Changes
	err := s.read(ctx, "read changes", func(ctx context.Context, tx bun.Tx) error {
		changes = catalog.Changes{}
		if err := tx.NewRaw("SELECT value FROM revision WHERE id = 1").Scan(ctx, &changes.Revision); err != nil {
			return err
		}
		if changes.Revision <= since {
			return nil
		}
		return collect(ctx, tx, since, &changes)
	})
	return changes, err
}

func collect(ctx context.Context, tx bun.Tx, since int64, changes *catalog.Changes) (err error) {
	if since > 0 {
		if changes.Deleted, err = tombstones(ctx, tx, "revision > ?", since); err != nil {
			return err
		}
	}
	if changes.Clusters, err = changed(ctx, tx, since, (*clusterRow).cluster); err != nil {
		return err
	}
	if changes.Repositories, err = changed(ctx, tx, since, (*repositoryRow).repository); err != nil {
		return err
	}
	if changes.Services, err = changed(ctx, tx, since, (*serviceRow).service); err != nil {
		return err
	}
	if changes.Users, err = changed(ctx, tx, since, (*userRow).user); err != nil {
		return err
	}
	if changes.Bindings, err = changed(ctx, tx, since, (*bindingRow).binding); err != nil {
		return err
	}
	if changes.Tokens, err = changedTokens(ctx, tx, since); err != nil {
		return err
	}
	if changes.Reports, err = changedReports(ctx, tx, since); err != nil {
		return err
	}
	changes.Grants, err = changedGrants(ctx, tx, since)
	return err
}

// changed reads the rows that changed after a revision, and converts them.
func changed[Row, Value any](ctx context.Context, tx bun.Tx, since int64, convert func(*Row) (*Value, error)) ([]*Value, error) {
	var rows []*Row
	if err := tx.NewSelect().Model(&rows).Where("revision > ?", since).Scan(ctx); err != nil {
		return nil, err
	}
	values := make([]*Value, len(rows))
	for i, row := range rows {
		value, err := convert(row)
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	return values, nil
}

func changedReports(ctx context.Context, tx bun.Tx, since int64) ([]catalog.StoredReport, error) {
	var rows []*reportRow
	err := tx.NewSelect().Model(&rows).ColumnExpr("sr.*, s.name AS service").
		Join("JOIN services AS s ON s.uid = sr.service_uid").Where("sr.revision > ?", since).Scan(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]catalog.StoredReport, len(rows))
	for i, row := range rows {
		if reports[i], err = row.stored(); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

func tombstones(ctx context.Context, tx bun.Tx, where string, args ...any) ([]catalog.Tombstone, error) {
	var rows []*deletionRow
	if err := tx.NewSelect().Model(&rows).Where(where, args...).Order("revision").Scan(ctx); err != nil {
		return nil, err
	}
	stones := make([]catalog.Tombstone, len(rows))
	for i, row := range rows {
		stones[i] = row.tombstone()
	}
	return stones, nil
}

// Definitions implements catalog.Definitions.
func (s *Store) Definitions(ctx context.Context) (repositories []*catalog.Repository, deleted []catalog.Tombstone, err error) {
	err = s.read(ctx, "read definitions", func(ctx context.Context, tx bun.Tx) error {
		if repositories, err = changed(ctx, tx, 0, s.opened); err != nil {
			return err
		}
		deleted, err = tombstones(ctx, tx, "kind = ?", string(catalog.KindRepository))
		return err
	})
	return repositories, deleted, err
}
