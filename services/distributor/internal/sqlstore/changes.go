// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Changes implements catalog.Log.
func (s *Store) Changes(ctx context.Context, since int64) (catalog.Changes, error) {
	var changes catalog.Changes
	err := s.read(ctx, "read changes", func(ctx context.Context, tx bun.Tx) error {
		changes = catalog.Changes{}
		incarnation := ""
		if err := tx.NewRaw("SELECT value, incarnation FROM revision WHERE id = 1").Scan(ctx, &changes.Revision, &incarnation); err != nil {
			return err
		}
		if s.keys.isReplaced(incarnation) {
			return catalog.ErrReplaced
		}
		if changes.Revision <= since {
			return nil
		}
		return collect(ctx, tx, s.tables, since, &changes)
	})
	return changes, err
}

func collect(ctx context.Context, tx bun.Tx, tables []table, since int64, changes *catalog.Changes) error {
	changed := func() *bun.SelectQuery { return tx.NewSelect().Where("?TableAlias.revision > ?", since) }
	if since > 0 {
		if err := list(ctx, changed().Order("revision"), &changes.Deleted, (*deletionRow).tombstone); err != nil {
			return err
		}
	}
	for _, table := range tables {
		if err := table.collect(ctx, changed(), changes); err != nil {
			return err
		}
	}
	return cmp.Or(
		list(ctx, changed(), &changes.Variants, (*variantRow).state),
		collectAdmissions(ctx, tx, changed(), changes),
		list(ctx, withUser(changed()), &changes.Tokens, (*tokenRow).unused),
		list(ctx, withProvider(changed()), &changes.Sessions, (*sessionRow).unused),
		list(ctx, withService(changed()), &changes.Reports, (*reportRow).stored),
		collectDerived(ctx, tx, since, changes),
		tryList(ctx, changed(), &changes.Grants, (*grantRow).grant),
	)
}

// Definitions implements catalog.Definitions.
func (s *Store) Definitions(ctx context.Context) (repositories []*catalog.Repository, deleted []catalog.Tombstone, err error) {
	err = s.opening(ctx, func(ctx context.Context) error {
		repositories, deleted = nil, nil
		return s.read(ctx, "read definitions", func(ctx context.Context, tx bun.Tx) error {
			return cmp.Or(
				tryList(ctx, tx.NewSelect(), &repositories, func(r *repositoryRow) (*catalog.Repository, error) { return storedRepositories.opened(s.keys, r) }),
				list(ctx, tx.NewSelect().Where("kind = ?", string(catalog.KindRepository)).Order("revision"), &deleted, (*deletionRow).tombstone),
			)
		})
	})
	return repositories, deleted, err
}
