// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/seal"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// providerRow is a stored identity provider. The secret is sealed and bound to the provider's uid,
// so that it cannot be moved to one with another issuer.
type providerRow struct {
	bun.BaseModel `bun:"table:identity_providers,alias:p"`
	metaColumns
	Spec         column[catalog.IdentityProviderSpec] `bun:"spec"` // without the secret
	ClientSecret []byte                               `bun:"client_secret"`
}

// provider returns the row without its secret.
func (r *providerRow) provider() *catalog.IdentityProvider {
	return &catalog.IdentityProvider{Metadata: r.metadata(), Spec: r.Spec.v}
}

// openedProvider returns the row with its secret.
func openedProvider(sealer *seal.Sealer, row *providerRow) (*catalog.IdentityProvider, error) {
	p := row.provider()
	if len(row.ClientSecret) == 0 {
		return p, nil
	}
	plain, err := sealer.Open(row.ClientSecret, []byte(row.UID))
	if err != nil {
		return nil, fmt.Errorf("open secret of identity provider %s: %w", row.Name, err)
	}
	p.Spec.ClientSecret = secret.Text(plain)
	return p, nil
}

func (r *providerRow) object(_ context.Context, t *tx) (catalog.Object, error) {
	return openedProvider(t.store.providers, r)
}

func putProvider(ctx context.Context, t *tx, meta metaColumns, p *catalog.IdentityProvider) error {
	row := &providerRow{metaColumns: meta, Spec: columnOf(p.Spec)}
	if text := p.Spec.ClientSecret.Reveal(); text != "" {
		sealed, err := t.store.providers.Seal([]byte(text), []byte(p.UID))
		if err != nil {
			return fmt.Errorf("seal secret of identity provider %s: %w", p.Name, err)
		}
		row.ClientSecret = sealed
	}
	return t.upsert(ctx, row, "spec", "client_secret")
}

// ProviderSecret returns the secret of the client at the identity provider with that uid; empty for
// a public client. Error: *catalog.NotFoundError.
func (s *SignIns) ProviderSecret(ctx context.Context, uid string) (secret.Text, error) {
	var p *catalog.IdentityProvider
	err := s.opening(ctx, func(ctx context.Context) error {
		row := new(providerRow)
		err := s.db.NewSelect().Model(row).Where("uid = ?", uid).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindIdentityProvider, Name: uid}}
		}
		if err != nil {
			return translate("read identity provider", err)
		}
		p, err = openedProvider(s.providers, row)
		return err
	})
	if err != nil {
		return "", err
	}
	return p.Spec.ClientSecret, nil
}
