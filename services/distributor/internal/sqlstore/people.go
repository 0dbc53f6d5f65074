// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

type userRow struct {
	bun.BaseModel `bun:"table:users,alias:u"`
	metaColumns
	Description string           `bun:"description"`
	Groups      column[[]string] `bun:"groups"`
}

type bindingRow struct {
	bun.BaseModel `bun:"table:access_bindings,alias:b"`
	metaColumns
	Spec column[catalog.AccessBindingSpec] `bun:"spec"`
}

type keyRow struct {
	bun.BaseModel `bun:"table:issuer_keys,alias:k"`
	ID            int    `bun:"id,pk"`
	Sealed        []byte `bun:"sealed"`
	CreatedAt     int64  `bun:"created_at"`
}

func (r *userRow) user() *catalog.User {
	return &catalog.User{Metadata: r.metadata(), Spec: catalog.UserSpec{Description: r.Description, Groups: r.Groups.v}}
}

func (r *bindingRow) binding() *catalog.AccessBinding {
	return &catalog.AccessBinding{Metadata: r.metadata(), Spec: r.Spec.v}
}

// IssuerKey returns the key that signs access tokens, and makes it if there is none. All replicas
// get the same.
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
