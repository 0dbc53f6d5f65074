// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// Reach implements journal.Store.
func (r Records) Reach(ctx context.Context) (from time.Time, err error) {
	err = r.store.read(ctx, "read how far back audit records reach", func(ctx context.Context, sqlTx bun.Tx) error {
		var at int64
		if err := sqlTx.NewRaw("SELECT pruned_before FROM audit_reach WHERE id = 1").Scan(ctx, &at); err != nil {
			return err
		}
		if at == 0 {
			err := sqlTx.NewSelect().Table("audit_records").Column("made_at").Order("made_at").Limit(1).Scan(ctx, &at)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		from = timeOf(at)
		return nil
	})
	return from, err
}

// Prune implements journal.Store.
func (r Records) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	var deleted int64
	err := r.store.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error {
		old := sqlTx.NewSelect().Table("audit_records").Column("seq").Where("made_at < ?", micros(before)).Order("made_at").Limit(int64(limit))
		result, err := sqlTx.NewDelete().Table("audit_records").Where("seq IN (?)", old).Exec(ctx)
		if err != nil {
			return err
		}
		if deleted, err = result.RowsAffected(); err != nil {
			return fmt.Errorf("count pruned audit records: %w", err)
		}
		if deleted == 0 {
			return nil
		}
		_, err = sqlTx.NewRaw("UPDATE audit_reach SET pruned_before = ? WHERE id = 1 AND pruned_before < ?", micros(before), micros(before)).Exec(ctx)
		return err
	})
	if err != nil {
		return 0, translate("prune audit records", err)
	}
	return int(deleted), nil
}
