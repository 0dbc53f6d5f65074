// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// presenceBatch is how many agents one statement writes: a statement each would hold up the edits
// of a large fleet.
const presenceBatch = 500

// SavePresence implements catalog.Reports.
func (s *Store) SavePresence(ctx context.Context, presence []catalog.Presence) error {
	return s.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
		t.dirty = true
		for batch := range slices.Chunk(presence, presenceBatch) {
			if err := savePresence(ctx, t.sql, t.revision, batch); err != nil {
				return translate("write presence", err)
			}
		}
		return nil
	})
}

// savePresence relies on the names that both databases give to the columns of VALUES.
func savePresence(ctx context.Context, db bun.IDB, revision int64, batch []catalog.Presence) error {
	args := []any{revision}
	for _, p := range batch {
		args = append(args, p.ClusterUID, micros(p.SeenAt), micros(p.ConnectedUntil))
	}
	rows := strings.TrimSuffix(strings.Repeat("(?, ?, ?), ", len(batch)), ", ")
	_, err := db.NewRaw(`UPDATE clusters SET last_seen_at = p.column2, connected_until = p.column3, revision = ?
		FROM (VALUES `+rows+`) AS p WHERE clusters.uid = p.column1 AND clusters.last_seen_at < p.column2`, args...).Exec(ctx)
	return err
}

// Now implements catalog.Reports. A SQLite database has the clock of this machine, where its only replica is.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if !s.postgres {
		return catalog.Now(), nil
	}
	var now int64
	err := s.reads.NewRaw("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(ctx, &now)
	return timeOf(now), translate("read the database's clock", err)
}
