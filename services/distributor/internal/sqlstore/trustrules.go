// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// trustRow is a stored trust rule. It holds no secret.
type trustRow struct {
	bun.BaseModel `bun:"table:trust_rules,alias:tr"`
	metaColumns
	Spec column[catalog.TrustRuleSpec] `bun:"spec"`
}

func (r *trustRow) rule() *catalog.TrustRule {
	return &catalog.TrustRule{Metadata: r.metadata(), Spec: r.Spec.v}
}

func (r *trustRow) object(context.Context, *tx) (catalog.Object, error) { return r.rule(), nil }
