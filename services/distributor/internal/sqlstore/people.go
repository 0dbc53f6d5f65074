// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type userRow struct {
	bun.BaseModel `bun:"table:users,alias:u"`
	metaColumns
	Description string           `bun:"description"`
	Groups      column[[]string] `bun:"groups"`
}

var storedUsers = storage[*catalog.User, *userRow]{
	kind: catalog.KindUser, columns: []string{"description", "groups"},
	row: func(u *catalog.User) *userRow {
		return &userRow{Description: u.Spec.Description, Groups: columnOf(u.Spec.Groups)}
	},
	object: func(r *userRow) *catalog.User {
		return &catalog.User{Metadata: r.metadata(), Spec: catalog.UserSpec{Description: r.Description, Groups: r.Groups.v}}
	},
	changed: func(c *catalog.Changes) *[]*catalog.User { return &c.Users },
}

type bindingRow struct {
	bun.BaseModel `bun:"table:access_bindings,alias:b"`
	metaColumns
	specColumns[catalog.AccessBindingSpec]
}

var storedBindings = inJSON[bindingRow](catalog.KindAccessBinding,
	func(b *catalog.AccessBinding) *catalog.AccessBindingSpec { return &b.Spec },
	func(c *catalog.Changes) *[]*catalog.AccessBinding { return &c.Bindings })

type providerRow struct {
	bun.BaseModel `bun:"table:identity_providers,alias:p"`
	metaColumns
	specColumns[catalog.IdentityProviderSpec]
	ClientSecret []byte `bun:"client_secret"`
}

// storedProviders have their secret bound to their uid, so that it cannot be moved to one with another issuer.
var storedProviders = inJSON(catalog.KindIdentityProvider,
	func(p *catalog.IdentityProvider) *catalog.IdentityProviderSpec { return &p.Spec },
	func(c *catalog.Changes) *[]*catalog.IdentityProvider { return &c.Providers },
	sealedText(sealedColumn{"identity_providers", "uid", "client_secret", purposeProvider, placeOfKey},
		func(r *providerRow) *[]byte { return &r.ClientSecret },
		func(p *catalog.IdentityProvider) *secret.Text { return &p.Spec.ClientSecret }))
