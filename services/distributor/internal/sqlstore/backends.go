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

// backendRow is a stored back end. The credential is sealed and bound to the back end's uid, so
// that it cannot be moved to one with another URL.
type backendRow struct {
	bun.BaseModel `bun:"table:config_backends,alias:cb"`
	metaColumns
	Spec          column[catalog.ConfigBackendSpec] `bun:"spec"` // without secrets
	Credential    []byte                            `bun:"credential"`
	WebhookSecret []byte                            `bun:"webhook_secret"`
}

// hookPlace binds the secret of webhooks to its column, so that neither it nor a credential can
// stand in for the other.
func hookPlace(uid string) []byte { return []byte(uid + "/webhook_secret") }

// backend returns the row without its secrets.
func (r *backendRow) backend() *catalog.ConfigBackend {
	return &catalog.ConfigBackend{Metadata: r.metadata(), Spec: r.Spec.v}
}

func openedBackend(sealer *seal.Sealer, row *backendRow) (*catalog.ConfigBackend, error) {
	b := row.backend()
	var err error
	if b.Spec.Credential, err = openHeld(row, "credential", sealer, row.Credential, placeOfUID(row.UID)); err != nil {
		return nil, err
	}
	b.Spec.WebhookSecret, err = openHeld(row, "webhook secret", sealer, row.WebhookSecret, hookPlace(row.UID))
	return b, err
}

// openHeld opens a secret of a back end; empty: it has none.
func openHeld(row *backendRow, what string, sealer *seal.Sealer, sealed, place []byte) (secret.Text, error) {
	if len(sealed) == 0 {
		return "", nil
	}
	plain, err := sealer.Open(sealed, place)
	if err != nil {
		return "", fmt.Errorf("open %s of configuration back end %s: %w", what, row.Name, err)
	}
	return secret.Text(plain), nil
}

func (r *backendRow) object(_ context.Context, t *tx) (catalog.Object, error) {
	return openedBackend(t.store.backends, r)
}

// putBackend writes a back end, and decides again what services obtain of it: it may be open to
// others now.
func (t *tx) putBackend(ctx context.Context, meta metaColumns, b *catalog.ConfigBackend) error {
	row := &backendRow{metaColumns: meta, Spec: columnOf(b.Spec)}
	if text := b.Spec.Credential.Reveal(); text != "" {
		sealed, err := t.store.backends.Seal([]byte(text), []byte(b.UID))
		if err != nil {
			return fmt.Errorf("seal credential of configuration back end %s: %w", b.Name, err)
		}
		row.Credential = sealed
	}
	if text := b.Spec.WebhookSecret.Reveal(); text != "" {
		sealed, err := t.store.backends.Seal([]byte(text), hookPlace(b.UID))
		if err != nil {
			return fmt.Errorf("seal webhook secret of configuration back end %s: %w", b.Name, err)
		}
		row.WebhookSecret = sealed
	}
	if err := t.upsert(ctx, row, "spec", "credential", "webhook_secret"); err != nil {
		return err
	}
	_, err := settleReaders(ctx, t, numbered, "ce.backend_uid = ?", b.UID)
	return err
}

// Backend implements configs.Entries.
func (e *Entries) Backend(ctx context.Context, uid string) (*catalog.ConfigBackend, error) {
	var b *catalog.ConfigBackend
	err := e.store.opening(ctx, func(ctx context.Context) error {
		row := new(backendRow)
		err := e.store.db.NewSelect().Model(row).Where("uid = ?", uid).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindConfigBackend, Name: uid}}
		}
		if err != nil {
			return translate("read configuration back end", err)
		}
		b, err = openedBackend(e.store.backends, row)
		return err
	})
	return b, err
}

// Hook implements backendhook.Backends.
func (e *Entries) Hook(ctx context.Context, name string) (uid string, proof secret.Text, err error) {
	err = e.store.opening(ctx, func(ctx context.Context) error {
		row := new(backendRow)
		err := e.store.db.NewSelect().Model(row).Where("name = ?", name).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			uid, proof = "", ""
			return nil
		}
		if err != nil {
			return translate("read configuration back end", err)
		}
		uid = row.UID
		proof, err = openHeld(row, "webhook secret", e.store.backends, row.WebhookSecret, hookPlace(row.UID))
		return err
	})
	return uid, proof, err
}
