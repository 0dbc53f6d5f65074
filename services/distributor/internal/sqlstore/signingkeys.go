// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/keys/rotation"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type signingKeyRow struct {
	bun.BaseModel `bun:"table:signing_keys,alias:gk"`
	ID            string `bun:"id,pk"`
	Sealed        []byte `bun:"sealed"` // the seed
	CreatedAt     int64  `bun:"created_at"`
	SignsAt       int64  `bun:"signs_at"`
	EndsAt        int64  `bun:"ends_at"`
}

// formerKeyRow is the signing key of a database of an earlier release.
type formerKeyRow struct {
	bun.BaseModel `bun:"table:issuer_keys,alias:k"`
	ID            int    `bun:"id,pk"`
	Sealed        []byte `bun:"sealed"`
	CreatedAt     int64  `bun:"created_at"`
}

var _ rotation.Signing = (*Rotation)(nil)

var (
	signingKeySeeds = sealedColumn{"signing_keys", "id", "sealed", purposeIssuer, purposeIssuer + "/*"}
	formerKeySeeds  = sealedColumn{"issuer_keys", "id", "sealed", purposeIssuer, purposeIssuer} // it has one row
)

// SigningKeys implements rotation.Signing.
func (r *Rotation) SigningKeys(ctx context.Context) (keys []rotation.SigningKey, err error) {
	err = r.store.opening(ctx, func(ctx context.Context) error {
		keys, err = r.signingKeys(ctx, r.store.db)
		return err
	})
	if err != nil || len(keys) > 0 {
		return keys, err
	}
	if err := r.makeFirstSigningKey(ctx); err != nil {
		return nil, err
	}
	return r.signingKeys(ctx, r.store.db)
}

// ChangeSigningKeys implements rotation.Signing.
func (r *Rotation) ChangeSigningKeys(
	ctx context.Context, decide func(keys []rotation.SigningKey, now time.Time) ([]rotation.SigningKey, bool, error),
) error {
	if err := ready(ctx, r.store.journal); err != nil {
		return err
	}
	return r.store.editWith(ctx, quietly, func(ctx context.Context, t *tx) error {
		before, err := r.signingKeys(ctx, t.sql)
		if err != nil {
			return err
		}
		after, changed, err := decide(slices.Clone(before), time.Now())
		if err != nil || !changed {
			return err
		}
		t.dirty = true
		for _, key := range before {
			if !slices.ContainsFunc(after, func(k rotation.SigningKey) bool { return bytes.Equal(k.Private, key.Private) }) {
				if _, err := t.sql.NewDelete().Model((*signingKeyRow)(nil)).Where("id = ?", key.ID).Exec(ctx); err != nil {
					return translate("delete signing key", err)
				}
			}
		}
		for _, key := range after {
			if !slices.ContainsFunc(before, func(k rotation.SigningKey) bool { return k.ID == key.ID }) {
				t.note(catalog.Change{Verb: catalog.VerbRotate, Kind: catalog.RecordSigningKey, Name: key.ID})
			}
			if err := r.putSigningKey(ctx, t.sql, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// signingKeys reads the keys in the order in which they sign.
func (r *Rotation) signingKeys(ctx context.Context, db bun.IDB) ([]rotation.SigningKey, error) {
	var rows []*signingKeyRow
	if err := db.NewSelect().Model(&rows).Order("signs_at", "id").Scan(ctx); err != nil {
		return nil, translate("read signing keys", err)
	}
	keys := make([]rotation.SigningKey, 0, len(rows))
	for _, row := range rows {
		seed, err := signingKeySeeds.open(r.store.keys, row.ID, row.Sealed)
		if err != nil {
			return nil, err
		}
		key, err := rotation.NewSigningKey(ed25519.NewKeyFromSeed(seed))
		if err != nil {
			return nil, err
		}
		key.CreatedAt, key.SignsAt, key.EndsAt = timeOf(row.CreatedAt), timeOf(row.SignsAt), timeOf(row.EndsAt)
		keys = append(keys, key)
	}
	return keys, nil
}

func (r *Rotation) putSigningKey(ctx context.Context, db bun.IDB, key rotation.SigningKey) error {
	sealed, err := signingKeySeeds.seal(r.store.keys, key.ID, key.Private.Seed())
	if err != nil {
		return err
	}
	row := &signingKeyRow{
		ID: key.ID, Sealed: sealed, CreatedAt: micros(key.CreatedAt), SignsAt: micros(key.SignsAt), EndsAt: micros(key.EndsAt),
	}
	return translate("write signing key", replace(ctx, db, row, "id", "sealed", "signs_at", "ends_at"))
}

// makeFirstSigningKey moves the key of an earlier release, whose tokens stay valid, or makes one.
// Replicas that do so at once agree on one key.
func (r *Rotation) makeFirstSigningKey(ctx context.Context) error {
	return r.store.editWith(ctx, quietly, func(ctx context.Context, t *tx) error {
		n, err := t.sql.NewSelect().Model((*signingKeyRow)(nil)).Count(ctx)
		if err != nil || n > 0 {
			return translate("count signing keys", err)
		}
		key, err := r.formerSigningKey(ctx, t.sql)
		if errors.Is(err, sql.ErrNoRows) {
			key, err = rotation.MakeSigningKey(time.Now())
		}
		if err != nil {
			return err
		}
		t.dirty = true
		if _, err := t.sql.NewDelete().Model((*formerKeyRow)(nil)).Where("id = 1").Exec(ctx); err != nil {
			return translate("delete former signing key", err)
		}
		return r.putSigningKey(ctx, t.sql, key)
	})
}

func (r *Rotation) formerSigningKey(ctx context.Context, db bun.IDB) (rotation.SigningKey, error) {
	row := &formerKeyRow{ID: 1}
	if err := db.NewSelect().Model(row).WherePK().Scan(ctx); err != nil {
		return rotation.SigningKey{}, translate("read former signing key", err)
	}
	seed, err := formerKeySeeds.open(r.store.keys, "", row.Sealed)
	if err != nil {
		return rotation.SigningKey{}, fmt.Errorf("open former signing key; was the service secret changed: %w", err)
	}
	key, err := rotation.NewSigningKey(ed25519.NewKeyFromSeed(seed))
	key.CreatedAt = timeOf(row.CreatedAt)
	key.SignsAt = key.CreatedAt
	return key, err
}
