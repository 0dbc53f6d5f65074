// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/seal"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// notifierRow is a stored notifier. The secrets are sealed and bound to the notifier's uid, so that
// they cannot be moved to one with another receiver.
type notifierRow struct {
	bun.BaseModel `bun:"table:notifiers,alias:n"`
	metaColumns
	Project string                       `bun:"project"`
	Spec    column[catalog.NotifierSpec] `bun:"spec"` // without the secrets
	Secrets []byte                       `bun:"secrets"`
}

// sealedSecrets is what is sealed of a notifier.
type sealedSecrets struct {
	URL      string `json:"url,omitempty"`
	HMACKey  string `json:"hmacKey,omitempty"`
	Token    string `json:"token,omitempty"`
	Password string `json:"password,omitempty"`
}

// notifier returns the row without its secrets.
func (r *notifierRow) notifier() *catalog.Notifier {
	return &catalog.Notifier{Metadata: r.metadata(), Spec: r.Spec.v}
}

// openedNotifier returns the row with its secrets.
func openedNotifier(sealer *seal.Sealer, row *notifierRow) (*catalog.Notifier, error) {
	n := row.notifier()
	if len(row.Secrets) == 0 {
		return n, nil
	}
	plain, err := sealer.Open(row.Secrets, []byte(row.UID))
	if err != nil {
		return nil, fmt.Errorf("open secrets of notifier %s: %w", row.Name, err)
	}
	var s sealedSecrets
	if err := json.Unmarshal(plain, &s); err != nil {
		return nil, fmt.Errorf("read secrets of notifier %s: not the JSON that was sealed", row.Name) // err may hold a part of them
	}
	n.Spec.Secrets = catalog.NotifierSecrets{
		URL: secret.Text(s.URL), HMACKey: secret.Text(s.HMACKey), Token: secret.Text(s.Token), Password: secret.Text(s.Password),
	}
	return n, nil
}

func (r *notifierRow) object(_ context.Context, t *tx) (catalog.Object, error) {
	return openedNotifier(t.store.notifiers, r)
}

func (t *tx) putNotifier(ctx context.Context, meta metaColumns, n *catalog.Notifier) error {
	row := &notifierRow{metaColumns: meta, Project: objectname.Project(n.Name), Spec: columnOf(n.Spec)}
	if s := n.Spec.Secrets; s != (catalog.NotifierSecrets{}) {
		plain, err := json.Marshal(sealedSecrets{
			URL: s.URL.Reveal(), HMACKey: s.HMACKey.Reveal(), Token: s.Token.Reveal(), Password: s.Password.Reveal(),
		})
		if err != nil {
			return fmt.Errorf("write secrets of notifier %s: %w", n.Name, err)
		}
		if row.Secrets, err = t.store.notifiers.Seal(plain, []byte(n.UID)); err != nil {
			return fmt.Errorf("seal secrets of notifier %s: %w", n.Name, err)
		}
	}
	return t.upsert(ctx, row, "spec", "secrets")
}

// NotifierSecrets returns the secrets of the notifier with that uid. Error: *catalog.NotFoundError.
func (s *Notifications) NotifierSecrets(ctx context.Context, uid string) (catalog.NotifierSecrets, error) {
	var n *catalog.Notifier
	err := s.store.opening(ctx, func(ctx context.Context) error {
		row := new(notifierRow)
		err := s.store.db.NewSelect().Model(row).Where("uid = ?", uid).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindNotifier, Name: uid}}
		}
		if err != nil {
			return translate("read notifier", err)
		}
		n, err = openedNotifier(s.store.notifiers, row)
		return err
	})
	if err != nil {
		return catalog.NotifierSecrets{}, err
	}
	return n.Spec.Secrets, nil
}
