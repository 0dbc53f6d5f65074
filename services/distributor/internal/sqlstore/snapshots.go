// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type snapshotRow struct {
	bun.BaseModel `bun:"table:snapshots,alias:sn"`
	RepositoryUID string                 `bun:"repository_uid,pk"`
	Source        string                 `bun:"source,pk"`
	Snapshot      column[snapshotColumn] `bun:"snapshot"`
	ResolvedAt    int64                  `bun:"resolved_at"`
	FreshAt       int64                  `bun:"fresh_at"`
}

// snapshotColumn is the stored form of a catalog.Snapshot.
type snapshotColumn struct {
	Commit      string        `json:"commit"`
	Version     string        `json:"version,omitempty"`
	Digest      digest.Digest `json:"digest"`
	ContentSize int64         `json:"contentSize"`
	StoredSize  int64         `json:"storedSize"`
	Files       int           `json:"files"`
	// Source is set where its text is too long for the row's key.
	Source *catalog.Source `json:"source,omitempty"`
}

// maxKeyBytes is the longest source that is its own key: PostgreSQL's indexes take 2 704 bytes.
const maxKeyBytes = 1024

// snapshotKey returns what a source's row is found by: the source as JSON, or the digest of that
// where it is long.
func snapshotKey(source catalog.Source) (key string, long bool, err error) {
	key, err = encode(source)
	if err != nil || len(key) <= maxKeyBytes {
		return key, false, err
	}
	return digest.FromBytes([]byte(key)).String(), true, nil
}

// SaveSnapshot implements catalog.Snapshots.
func (s *Store) SaveSnapshot(ctx context.Context, repositoryUID string, source catalog.Source, resolution catalog.Resolution) error {
	if resolution.Snapshot == nil {
		return nil
	}
	key, long, err := snapshotKey(source)
	if err != nil {
		return err
	}
	known := resolution.Snapshot
	column := columnOf(snapshotColumn{
		Commit: known.Commit, Version: known.Version, Digest: known.Digest,
		ContentSize: known.ContentSize, StoredSize: known.StoredSize, Files: known.Files,
	})
	if long {
		column.v.Source = &source
	}
	_, err = s.db.NewRaw(`INSERT INTO snapshots (repository_uid, source, snapshot, resolved_at, fresh_at)
		SELECT uid, ?, ?, ?, ? FROM repositories WHERE uid = ?
		ON CONFLICT (repository_uid, source) DO UPDATE
		SET snapshot = EXCLUDED.snapshot, resolved_at = EXCLUDED.resolved_at, fresh_at = EXCLUDED.fresh_at
		WHERE snapshots.fresh_at <= EXCLUDED.fresh_at OR EXCLUDED.fresh_at = 0`,
		key, column, micros(resolution.ResolvedAt), micros(resolution.FreshAt), repositoryUID).Exec(ctx)
	return translate("write snapshot", err)
}

// LoadSnapshots implements catalog.Snapshots.
func (s *Store) LoadSnapshots(ctx context.Context) (map[catalog.Source]catalog.Resolution, error) {
	var rows []*snapshotRow
	if err := s.db.NewSelect().Model(&rows).Scan(ctx); err != nil {
		return nil, translate("read snapshots", err)
	}
	return resolutionsOf(rows)
}

// SnapshotsOf implements catalog.Snapshots.
func (s *Store) SnapshotsOf(ctx context.Context, sources []catalog.Source) (map[catalog.Source]catalog.Resolution, error) {
	keys, repositories := make([]string, len(sources)), make([]string, len(sources))
	for i, source := range sources {
		key, _, err := snapshotKey(source)
		if err != nil {
			return nil, err
		}
		keys[i], repositories[i] = key, source.Repository
	}
	if len(keys) == 0 {
		return map[catalog.Source]catalog.Resolution{}, nil
	}
	var rows []*snapshotRow
	err := s.db.NewSelect().Model(&rows).Where("sn.source IN (?)", bun.List(keys)).
		Where("sn.repository_uid IN (SELECT uid FROM repositories WHERE name IN (?))", bun.List(repositories)).Scan(ctx)
	if err != nil {
		return nil, translate("read some snapshots", err)
	}
	return resolutionsOf(rows)
}

func resolutionsOf(rows []*snapshotRow) (map[catalog.Source]catalog.Resolution, error) {
	resolutions := make(map[catalog.Source]catalog.Resolution, len(rows))
	for _, row := range rows {
		source, resolution, err := row.resolution()
		if err != nil {
			return nil, err
		}
		resolutions[source] = resolution
	}
	return resolutions, nil
}

func (r *snapshotRow) resolution() (source catalog.Source, resolution catalog.Resolution, err error) {
	column := r.Snapshot.v
	if column.Source != nil {
		source = *column.Source
	} else if err := decode("source", r.Source, &source); err != nil {
		return source, resolution, err
	}
	snapshot := catalog.Snapshot{
		Commit: column.Commit, Version: column.Version, Digest: column.Digest,
		ContentSize: column.ContentSize, StoredSize: column.StoredSize, Files: column.Files,
	}
	return source, catalog.Resolution{Snapshot: &snapshot, ResolvedAt: timeOf(r.ResolvedAt), FreshAt: timeOf(r.FreshAt)}, nil
}

// PruneSnapshots implements catalog.Snapshots.
func (s *Store) PruneSnapshots(ctx context.Context, revision int64, keep func(catalog.Source) bool) error {
	stored, err := s.LoadSnapshots(ctx)
	if err != nil {
		return err
	}
	var unwanted []string
	for source := range stored {
		if keep(source) {
			continue
		}
		key, _, err := snapshotKey(source)
		if err != nil {
			return err
		}
		unwanted = append(unwanted, key)
	}
	if len(unwanted) == 0 {
		return nil
	}
	return s.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
		later, err := t.sql.NewSelect().Table("services").Where("revision > ?", revision).Exists(ctx)
		if err != nil || later {
			return translate("look for later services", err) // which may want a source that was not wanted
		}
		t.dirty = true
		_, err = t.sql.NewDelete().Table("snapshots").Where("source IN (?)", bun.List(unwanted)).Exec(ctx)
		return translate("prune snapshots", err)
	})
}
