// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

type grantRow struct {
	bun.BaseModel `bun:"table:grants,alias:g"`
	ClusterUID    string `bun:"cluster_uid,pk"`
	Digest        string `bun:"digest,pk"`
	Source        string `bun:"source"`
	Commit        string `bun:"commit_id"`
	Subpath       string `bun:"subpath"`
	ExpiresAt     int64  `bun:"expires_at"`
	Revision      int64  `bun:"revision"`
}

var _ catalog.Grants = (*Store)(nil)

// Grant implements catalog.Grants.
func (s *Store) Grant(ctx context.Context, grants []catalog.Grant) error {
	return s.edit(ctx, func(ctx context.Context, t *tx) error {
		t.dirty = true
		ended := micros(time.Now())
		if _, err := t.sql.NewDelete().Model((*grantRow)(nil)).Where("expires_at <= ?", ended).Exec(ctx); err != nil {
			return translate("sweep grants", err)
		}
		for _, grant := range grants {
			if err := t.grant(ctx, grant); err != nil {
				return translate("write grant", err)
			}
		}
		return nil
	})
}

func (t *tx) grant(ctx context.Context, grant catalog.Grant) error {
	source, err := encode(grant.Source)
	if err != nil {
		return err
	}
	row := &grantRow{
		ClusterUID: grant.ClusterUID, Digest: grant.Digest.String(), Source: source, Commit: grant.Commit, Subpath: grant.Subpath,
		ExpiresAt: micros(grant.ExpiresAt), Revision: t.revision,
	}
	query := t.sql.NewInsert().Model(row).On("CONFLICT (cluster_uid, digest) DO UPDATE")
	for _, column := range []string{"source", "commit_id", "subpath", "expires_at", "revision"} {
		query = query.Set("? = EXCLUDED.?", bun.Ident(column), bun.Ident(column))
	}
	_, err = query.Exec(ctx)
	return err
}

func (r *grantRow) grant() (*catalog.Grant, error) {
	parsed, err := digest.Parse(r.Digest)
	if err != nil {
		return nil, err
	}
	g := &catalog.Grant{
		ClusterUID: r.ClusterUID, Digest: parsed, Commit: r.Commit, Subpath: r.Subpath, ExpiresAt: timeOf(r.ExpiresAt),
	}
	return g, decode("source", r.Source, &g.Source)
}

func changedGrants(ctx context.Context, tx bun.Tx, since int64) ([]catalog.Grant, error) {
	found, err := changed(ctx, tx, since, (*grantRow).grant)
	grants := make([]catalog.Grant, len(found))
	for i, grant := range found {
		grants[i] = *grant
	}
	return grants, err
}
