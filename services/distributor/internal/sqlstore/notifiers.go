// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type notifierRow struct {
	bun.BaseModel `bun:"table:notifiers,alias:n"`
	ownedColumns
	specColumns[catalog.NotifierSpec]
	Secrets []byte `bun:"secrets"`
}

// notifierSecrets is the sealed form of catalog.NotifierSecrets.
type notifierSecrets struct {
	URL      string `json:"url,omitempty"`
	HMACKey  string `json:"hmacKey,omitempty"`
	Token    string `json:"token,omitempty"`
	Password string `json:"password,omitempty"`
}

// storedNotifiers have their secrets bound to their uid, so that they cannot be moved to one with another receiver.
var storedNotifiers = inJSON(catalog.KindNotifier,
	func(n *catalog.Notifier) *catalog.NotifierSpec { return &n.Spec },
	func(c *catalog.Changes) *[]*catalog.Notifier { return &c.Notifiers },
	sealedJSON(sealedColumn{"notifiers", "uid", "secrets", purposeNotifier, placeOfKey},
		func(r *notifierRow) *[]byte { return &r.Secrets },
		func(n *catalog.Notifier) bool { return n.Spec.Secrets != catalog.NotifierSecrets{} },
		func(n *catalog.Notifier) notifierSecrets {
			s := n.Spec.Secrets
			return notifierSecrets{URL: s.URL.Reveal(), HMACKey: s.HMACKey.Reveal(), Token: s.Token.Reveal(), Password: s.Password.Reveal()}
		},
		func(n *catalog.Notifier, s notifierSecrets) {
			n.Spec.Secrets = catalog.NotifierSecrets{
				URL: secret.Text(s.URL), HMACKey: secret.Text(s.HMACKey), Token: secret.Text(s.Token), Password: secret.Text(s.Password),
			}
		}))
