// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/services/distributor/internal/keys/rotation"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// resealLock is the key of PostgreSQL's advisory lock for [Store.LockReseal].
const resealLock = migrationLock + 1

// sealedColumns returns the columns of the schema that hold sealed values, columns of objects
// first; a test compares the list with the schema.
func sealedColumns(tables []table) (all []sealedColumn) {
	for _, table := range tables {
		all = append(all, table.sealed...)
	}
	return append(all, serviceSecrets, refreshTokens, entryValues, givenValues, heldGivenValues, heldValues, variantValues, signingKeySeeds)
}

var _ rotation.Seals = (*Rotation)(nil)

// SealingKey implements rotation.Seals.
func (r *Rotation) SealingKey(ctx context.Context) (string, error) {
	var state editLockRow
	err := r.store.db.NewSelect().Model(&state).Where("id = 1").Scan(ctx)
	return state.SealingKey, translate("read key", err)
}

// SealingKeys implements rotation.Seals.
func (r *Rotation) SealingKeys(ctx context.Context) (rotation.SealingState, error) {
	var state rotation.SealingState
	err := r.store.read(ctx, "read keys", func(ctx context.Context, tx bun.Tx) error {
		var rev editLockRow
		var rows []*sealingKeyRow
		if err := tx.NewSelect().Model(&rev).Where("id = 1").Scan(ctx); err != nil {
			return err
		}
		if err := tx.NewSelect().Model(&rows).Where("number <> ?", numberOfDigestKey).Order("number DESC").Scan(ctx); err != nil {
			return err
		}
		counts, err := countByPrefix(ctx, tx, sealedColumns(r.store.tables))
		if err != nil {
			return err
		}
		state = rotation.SealingState{}
		for _, row := range rows {
			id, err := seal.ParseKeyID(row.ID)
			if err != nil {
				return err
			}
			prefix := string(id.Prefix())
			state.Keys = append(state.Keys, rotation.SealingKey{
				ID: row.ID, Root: row.Root, CreatedAt: timeOf(row.CreatedAt), Current: row.ID == rev.SealingKey, Values: counts[prefix],
			})
			delete(counts, prefix)
		}
		for _, n := range counts {
			state.WithoutKey += n
		}
		return nil
	})
	return state, err
}

// countByPrefix returns the number of sealed values by their first bytes.
func countByPrefix(ctx context.Context, tx bun.Tx, columns []sealedColumn) (map[string]int, error) {
	counts := map[string]int{}
	for _, c := range columns {
		var rows []struct {
			Prefix []byte `bun:"prefix"`
			Number int    `bun:"number"`
		}
		err := tx.NewSelect().Table(c.table).ColumnExpr("substr(?, 1, ?) AS prefix", bun.Ident(c.column), len(seal.KeyID{}.Prefix())).
			ColumnExpr("COUNT(*) AS number").Where("? IS NOT NULL", bun.Ident(c.column)).GroupExpr("1").Scan(ctx, &rows)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			counts[string(row.Prefix)] += row.Number
		}
	}
	return counts, nil
}

// RotateSealingKey implements rotation.Seals. The root is asked before the lock of edits is taken.
func (r *Rotation) RotateSealingKey(ctx context.Context, expected string) (string, error) {
	var rows []*sealingKeyRow
	if err := r.store.db.NewSelect().Model(&rows).Order("number").Scan(ctx); err != nil {
		return "", translate("read keys", err)
	}
	next, err := r.store.keys.newKey(ctx, rows[len(rows)-1].Number+1)
	if err != nil {
		return "", err
	}
	if err := ready(ctx, r.store.journal); err != nil {
		return "", err
	}
	err = r.store.transact(ctx, quietly, func(ctx context.Context, t *tx) error {
		if expected != "" && expected != t.sealingKey {
			return rotation.ErrNotCurrent
		}
		n, err := t.sql.NewSelect().Model((*sealingKeyRow)(nil)).Where("number <> ?", numberOfDigestKey).Count(ctx)
		if err != nil {
			return translate("count keys", err)
		}
		if n > 1 {
			return rotation.ErrUnfinished
		}
		if _, err := t.sql.NewInsert().Model(next).Exec(ctx); err != nil {
			return translate("write key", err)
		}
		t.note(catalog.Change{Verb: catalog.VerbRotate, Kind: catalog.RecordSealingKey, Name: next.ID})
		t.dirty = true
		return sealWith(ctx, t.sql, next.ID)
	})
	if err != nil {
		return "", err
	}
	return next.ID, r.store.keys.load(ctx, r.store.connections)
}

// LockReseal implements rotation.Seals. The lock belongs to a connection, so it ends with a replica
// that dies. SQLite needs none: its file belongs to one process.
func (r *Rotation) LockReseal(ctx context.Context) (unlock func(), ok bool, err error) {
	if !r.store.postgres {
		return func() {}, true, nil
	}
	conn, err := r.store.db.DB.Conn(ctx)
	if err != nil {
		return nil, false, translate("lock sealing", err)
	}
	if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", resealLock).Scan(&ok); err != nil || !ok {
		return nil, false, errors.Join(translate("lock sealing", err), conn.Close())
	}
	return func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", resealLock)
		_ = conn.Close()
	}, true, nil
}

// sealedRow is a sealed value and the key of its row.
type sealedRow struct {
	Key    string `bun:"key"`
	Sealed []byte `bun:"sealed"`
}

// Reseal implements rotation.Seals. It holds the lock of edits, so no edit writes these values in
// the meantime, and the key that seals stays the same.
func (r *Rotation) Reseal(ctx context.Context, from rotation.Cursor, limit int) (rotation.Step, error) {
	step := rotation.Step{Next: from}
	err := r.store.editWith(ctx, quietly, func(ctx context.Context, t *tx) error {
		step = rotation.Step{Next: from}
		columns := sealedColumns(r.store.tables)
		if from.Column >= len(columns) {
			step.End = true
			return nil
		}
		c := columns[from.Column]
		rows, err := c.stale(ctx, t.sql, r.store.keys, from.After, limit)
		if err != nil {
			return err
		}
		for _, row := range rows {
			step.Next.After = row.Key
			ok, err := c.sealAgain(ctx, t.sql, r.store.keys, row)
			switch {
			case err != nil:
				return err
			case ok:
				t.dirty = true
				step.Sealed++
			default:
				step.Unreadable = append(step.Unreadable, fmt.Sprintf("%s.%s of %s", c.table, c.column, row.Key))
			}
		}
		if len(rows) < limit {
			step.Next = rotation.Cursor{Column: from.Column + 1}
			step.End = step.Next.Column == len(columns)
		}
		return nil
	})
	return step, err
}

// stale returns values of the column that the current key has not sealed, in the order of their
// keys.
func (c sealedColumn) stale(ctx context.Context, db bun.IDB, k *keyStore, after string, limit int) ([]sealedRow, error) {
	prefix := k.ring.Current().Prefix()
	var rows []sealedRow
	err := db.NewSelect().Table(c.table).ColumnExpr("? AS key", bun.Ident(c.key)).ColumnExpr("? AS sealed", bun.Ident(c.column)).
		Where("? IS NOT NULL", bun.Ident(c.column)).Where("? > ?", bun.Ident(c.key), after).
		Where("substr(?, 1, ?) <> ?", bun.Ident(c.column), len(prefix), prefix).
		OrderExpr("?", bun.Ident(c.key)).Limit(int64(limit)).Scan(ctx, &rows)
	return rows, translate("read sealed values", err)
}

// sealAgain seals a value with the current key. It reports false if the value does not open.
func (c sealedColumn) sealAgain(ctx context.Context, db bun.IDB, k *keyStore, row sealedRow) (bool, error) {
	plain, err := c.open(k, row.Key, row.Sealed)
	if err != nil {
		return false, nil //nolint:nilerr // reported by the caller: one broken value must not keep the others from the new key
	}
	sealed, err := c.seal(k, row.Key, plain)
	if err != nil {
		return false, err
	}
	_, err = db.NewUpdate().Table(c.table).Set("? = ?", bun.Ident(c.column), sealed).Where("? = ?", bun.Ident(c.key), row.Key).Exec(ctx)
	return err == nil, translate("write sealed value", err)
}

// RetireSealingKeys implements rotation.Seals. It holds the lock of edits, so no value can be
// sealed with an old key between the look and the deletion.
func (r *Rotation) RetireSealingKeys(ctx context.Context) (done bool, err error) {
	err = r.store.editWith(ctx, quietly, func(ctx context.Context, t *tx) error {
		done = false
		for _, c := range sealedColumns(r.store.tables) {
			rows, err := c.stale(ctx, t.sql, r.store.keys, "", 1)
			if err != nil || len(rows) > 0 {
				return err
			}
		}
		done = true
		result, err := t.sql.NewDelete().Model((*sealingKeyRow)(nil)).
			Where("number <> ? AND id <> ?", numberOfDigestKey, t.sealingKey).Exec(ctx)
		if err != nil {
			return translate("delete keys", err)
		}
		n, err := result.RowsAffected()
		t.dirty = n > 0
		return translate("count rows", err)
	})
	if err != nil || !done {
		return false, err
	}
	return true, r.store.keys.load(ctx, r.store.connections) // forgets the deleted keys here, too
}
