// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type backendRow struct {
	bun.BaseModel `bun:"table:config_backends,alias:cb"`
	metaColumns
	specColumns[catalog.ConfigBackendSpec]
	Credential    []byte `bun:"credential"`
	WebhookSecret []byte `bun:"webhook_secret"`
}

// storedBackends have their secrets bound to their uid, so that these cannot be moved to one with another URL.
var storedBackends = inJSON(catalog.KindConfigBackend,
	func(b *catalog.ConfigBackend) *catalog.ConfigBackendSpec { return &b.Spec },
	func(c *catalog.Changes) *[]*catalog.ConfigBackend { return &c.Backends },
	sealedText(sealedColumn{"config_backends", "uid", "credential", purposeBackend, placeOfKey},
		func(r *backendRow) *[]byte { return &r.Credential },
		func(b *catalog.ConfigBackend) *secret.Text { return &b.Spec.Credential }),
	backendHook)

var backendHook = sealedText(sealedColumn{"config_backends", "uid", "webhook_secret", purposeBackend, "*/webhook_secret"},
	func(r *backendRow) *[]byte { return &r.WebhookSecret },
	func(b *catalog.ConfigBackend) *secret.Text { return &b.Spec.WebhookSecret })
