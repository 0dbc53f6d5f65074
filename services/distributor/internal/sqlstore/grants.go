// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type grantRow struct {
	bun.BaseModel `bun:"table:grants,alias:g"`
	ClusterUID    string                 `bun:"cluster_uid,pk"`
	Digest        string                 `bun:"digest,pk"`
	Source        column[catalog.Source] `bun:"source"`
	Commit        string                 `bun:"commit_id"`
	Subpath       string                 `bun:"subpath"`
	ExpiresAt     int64                  `bun:"expires_at"`
	Revision      int64                  `bun:"revision"`
}

var _ catalog.Grants = (*Store)(nil)

// Grant implements catalog.Grants.
func (s *Store) Grant(ctx context.Context, grants []catalog.Grant) error {
	return s.edit(ctx, func(ctx context.Context, t *tx) error {
		t.dirty = true
		if asked := catalog.OriginOf(ctx).Asked; asked.Verb != "" {
			t.note(catalog.Change{Verb: asked.Verb, Kind: asked.Kind, Name: asked.Name})
		}
		ended := micros(time.Now())
		if _, err := t.sql.NewDelete().Model((*grantRow)(nil)).Where("expires_at <= ?", ended).Exec(ctx); err != nil {
			return translate("sweep grants", err)
		}
		for _, grant := range grants {
			row := grantRowOf(grant, t.revision)
			err := replace(ctx, t.sql, row, "cluster_uid, digest", "source", "commit_id", "subpath", "expires_at", "revision")
			if err != nil {
				return translate("write grant", err)
			}
		}
		return nil
	})
}

// grantRowOf returns the row of a grant.
func grantRowOf(grant catalog.Grant, revision int64) *grantRow {
	return &grantRow{
		ClusterUID: grant.ClusterUID, Digest: grant.Digest.String(), Source: columnOf(grant.Source), Commit: grant.Commit,
		Subpath: grant.Subpath, ExpiresAt: micros(grant.ExpiresAt), Revision: revision,
	}
}

func (r *grantRow) grant() (catalog.Grant, error) {
	parsed, err := digest.Parse(r.Digest)
	return catalog.Grant{
		ClusterUID: r.ClusterUID, Digest: parsed, Source: r.Source.v, Commit: r.Commit, Subpath: r.Subpath, ExpiresAt: timeOf(r.ExpiresAt),
	}, err
}
