// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

type userRow struct {
	bun.BaseModel `bun:"table:users,alias:u"`
	UID           string `bun:"uid,pk"`
	Name          string `bun:"name"`
	Groups        string `bun:"groups"`
	CreatedAt     int64  `bun:"created_at"`
}

type tokenRow struct {
	bun.BaseModel `bun:"table:api_tokens,alias:t"`
	Hash          []byte `bun:"hash,pk"`
	UserUID       string `bun:"user_uid"`
	Label         string `bun:"label"`
	CreatedAt     int64  `bun:"created_at"`
}

type keyRow struct {
	bun.BaseModel `bun:"table:issuer_keys,alias:k"`
	ID            int    `bun:"id,pk"`
	Sealed        []byte `bun:"sealed"`
	CreatedAt     int64  `bun:"created_at"`
}

// EnsureToken implements catalog.People.
func (s *Store) EnsureToken(ctx context.Context, user catalog.User, label string, hash []byte) error {
	groups, err := encode(user.Groups)
	if err != nil {
		return err
	}
	at := micros(time.Now())
	err = s.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, tx bun.Tx) error {
		row := &userRow{UID: rand.Text(), Name: user.Name, Groups: groups, CreatedAt: at}
		_, err := tx.NewInsert().Model(row).On("CONFLICT (name) DO UPDATE").Set("groups = EXCLUDED.groups").Returning("uid").Exec(ctx, &row.UID)
		if err != nil {
			return err
		}
		_, err = tx.NewDelete().Model((*tokenRow)(nil)).Where("user_uid = ? AND label = ? AND hash <> ?", row.UID, label, hash).Exec(ctx)
		if err != nil {
			return err
		}
		token := &tokenRow{Hash: hash, UserUID: row.UID, Label: label, CreatedAt: at}
		_, err = tx.NewInsert().Model(token).On("CONFLICT (hash) DO UPDATE").Set("user_uid = EXCLUDED.user_uid, label = EXCLUDED.label").Exec(ctx)
		return err
	})
	return translate("write token", err)
}

// UserByToken implements catalog.People.
func (s *Store) UserByToken(ctx context.Context, hash []byte) (catalog.User, error) {
	row := new(userRow)
	err := s.db.NewSelect().Model(row).Join("JOIN api_tokens AS t ON t.user_uid = u.uid").Where("t.hash = ?", hash).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return catalog.User{}, catalog.ErrNotFound
	}
	if err != nil {
		return catalog.User{}, translate("read token", err)
	}
	user := catalog.User{Name: row.Name, UID: row.UID}
	return user, decode("groups", row.Groups, &user.Groups)
}

// IssuerKey returns the key that signs access tokens, and makes it if there is none. All replicas get the same.
func (s *Store) IssuerKey(ctx context.Context) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate issuer key: %w", err)
	}
	sealed, err := s.issuer.Seal(key.Seed(), []byte(purposeIssuer))
	if err != nil {
		return nil, fmt.Errorf("seal issuer key: %w", err)
	}
	row := &keyRow{ID: 1, Sealed: sealed, CreatedAt: micros(time.Now())}
	if _, err := s.db.NewInsert().Model(row).On("CONFLICT (id) DO NOTHING").Exec(ctx); err != nil {
		return nil, translate("write issuer key", err)
	}
	if err := s.db.NewSelect().Model(row).WherePK().Scan(ctx); err != nil {
		return nil, translate("read issuer key", err)
	}
	seed, err := s.issuer.Open(row.Sealed, []byte(purposeIssuer))
	if err != nil {
		return nil, fmt.Errorf("open issuer key; was the service secret changed: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
