// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
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

type roleRow struct {
	bun.BaseModel `bun:"table:roles,alias:ro"`
	metaColumns
	Spec column[catalog.RoleSpec] `bun:"spec"`
}

func (r *userRow) user() *catalog.User {
	return &catalog.User{Metadata: r.metadata(), Spec: catalog.UserSpec{Description: r.Description, Groups: r.Groups.v}}
}

func (r *bindingRow) binding() *catalog.AccessBinding {
	return &catalog.AccessBinding{Metadata: r.metadata(), Spec: r.Spec.v}
}

func (r *roleRow) role() *catalog.Role {
	return &catalog.Role{Metadata: r.metadata(), Spec: r.Spec.v}
}
