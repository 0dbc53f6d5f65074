// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"
)

// Rotation is a store as package rotation sees it: keys, and how much each of them has sealed.
type Rotation struct{ store *Store }

// NewRotation returns the keys of a store.
func NewRotation(store *Store) *Rotation { return &Rotation{store: store} }

// open makes the first keys of a new database, loads the keys of another one, and makes the
// first root wrap keys that another root has wrapped.
func (r *Rotation) open(ctx context.Context) error {
	if err := r.makeFirstKeys(ctx); err != nil {
		return err
	}
	if err := r.store.keys.load(ctx, r.store.connections); err != nil {
		return err
	}
	return r.wrapAgain(ctx)
}

// makeFirstKeys makes the keys of a database that has none. Replicas that do so at once agree on
// the ones that were written first.
func (r *Rotation) makeFirstKeys(ctx context.Context) error {
	var state editLockRow
	if err := r.store.db.NewSelect().Model(&state).Where("id = 1").Scan(ctx); err != nil {
		return translate("read keys", err)
	}
	if state.SealingKey != "" {
		return nil
	}
	digests, err := r.store.keys.firstDigestKey(state.Value)
	if err != nil {
		return err
	}
	digestRow, err := r.store.keys.wrap(ctx, digestKey, numberOfDigestKey, digests)
	if err != nil {
		return err
	}
	first, err := r.store.keys.newKey(ctx, 1)
	if err != nil {
		return err
	}
	return r.store.transact(ctx, quietly, func(ctx context.Context, t *tx) error {
		if t.sealingKey != "" {
			return errClean
		}
		rows := []*sealingKeyRow{digestRow, first}
		if _, err := t.sql.NewInsert().Model(&rows).Exec(ctx); err != nil {
			return translate("write keys", err)
		}
		t.dirty = true
		return sealWith(ctx, t.sql, first.ID)
	})
}

// sealWith makes a key the one that seals.
func sealWith(ctx context.Context, db bun.IDB, id string) error {
	_, err := db.NewRaw("UPDATE revision SET sealing_key = ? WHERE id = 1", id).Exec(ctx)
	return translate("write key", err)
}

// wrapAgain has the first root wrap the keys that another one has wrapped. Afterwards the other
// root opens nothing. A replica that does the same at that time changes nothing twice.
func (r *Rotation) wrapAgain(ctx context.Context) error {
	var rows []*sealingKeyRow
	if err := r.store.db.NewSelect().Model(&rows).Where("root <> ?", r.store.keys.roots[0].Name()).Scan(ctx); err != nil {
		return translate("read keys", err)
	}
	for _, row := range rows {
		key, err := r.store.keys.unwrap(ctx, row)
		if err != nil {
			return err
		}
		again, err := r.store.keys.wrap(ctx, row.ID, row.Number, key.secret)
		if err != nil {
			return err
		}
		_, err = r.store.db.NewUpdate().Model(again).Column("root", "wrapped").WherePK().Where("root = ?", row.Root).Exec(ctx)
		if err != nil {
			return translate("write keys", err)
		}
	}
	return nil
}
