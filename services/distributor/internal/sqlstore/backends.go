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
	Spec       column[catalog.ConfigBackendSpec] `bun:"spec"` // without the credential
	Credential []byte                            `bun:"credential"`
}

// backend returns the row without its credential.
func (r *backendRow) backend() *catalog.ConfigBackend {
	return &catalog.ConfigBackend{Metadata: r.metadata(), Spec: r.Spec.v}
}

func openedBackend(sealer *seal.Sealer, row *backendRow) (*catalog.ConfigBackend, error) {
	b := row.backend()
	if len(row.Credential) == 0 {
		return b, nil
	}
	plain, err := sealer.Open(row.Credential, []byte(row.UID))
	if err != nil {
		return nil, fmt.Errorf("open credential of configuration back end %s: %w", row.Name, err)
	}
	b.Spec.Credential = secret.Text(plain)
	return b, nil
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
	if err := t.upsert(ctx, row, "spec", "credential"); err != nil {
		return err
	}
	readers, err := readersOf(ctx, t.sql, "ce.backend_uid = ?", b.UID)
	if err != nil {
		return err
	}
	_, err = settle(ctx, t, readers, numbered)
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
