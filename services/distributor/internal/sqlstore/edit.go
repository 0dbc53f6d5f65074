// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// tombstoneLife is how long deletions are remembered.
const tombstoneLife = 30 * 24 * time.Hour

// maxDependents bounds the names that Dependents returns.
const maxDependents = 10

// tx is one edit.
type tx struct {
	store    *Store
	sql      bun.Tx
	revision int64
	// dirty is set once something was written.
	dirty bool
}

// errClean ends an edit that wrote nothing, so that it takes no revision.
var errClean = errors.New("nothing was written")

// Edit implements catalog.Editable.
func (s *Store) Edit(ctx context.Context, fn func(ctx context.Context, tx catalog.Tx) error) error {
	return s.edit(ctx, func(ctx context.Context, t *tx) error { return fn(ctx, t) })
}

// edit takes the next revision first: its row is the lock by which edits follow one another, and
// become visible in the order of their revisions.
func (s *Store) edit(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	var own error
	err := s.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error {
		t := &tx{store: s, sql: sqlTx}
		if err := sqlTx.NewRaw("UPDATE revision SET value = value + 1 WHERE id = 1 RETURNING value").Scan(ctx, &t.revision); err != nil {
			return err
		}
		if own = fn(ctx, t); own != nil {
			return own
		}
		if !t.dirty {
			own = errClean
		}
		return own
	})
	switch {
	case own != nil && errors.Is(own, errClean):
		return nil
	case own != nil:
		return own
	}
	return translate("edit catalog", err)
}

// Revision implements catalog.Tx.
func (t *tx) Revision() int64 { return t.revision }

// Get implements catalog.Tx.
func (t *tx) Get(ctx context.Context, key catalog.Key) (catalog.Object, error) {
	var object catalog.Object
	var err error
	switch key.Kind {
	case catalog.KindCluster:
		row := new(clusterRow)
		if err = t.byName(ctx, row, key.Name); err == nil {
			object, err = row.cluster()
		}
	case catalog.KindRepository:
		row := new(repositoryRow)
		if err = t.byName(ctx, row, key.Name); err == nil {
			object, err = t.store.opened(row)
		}
	case catalog.KindService:
		row := new(serviceRow)
		if err = t.byName(ctx, row, key.Name); err == nil {
			object, err = t.serviceWithSecrets(ctx, row)
		}
	case catalog.KindUser:
		row := new(userRow)
		if err = t.byName(ctx, row, key.Name); err == nil {
			object, err = row.user()
		}
	case catalog.KindAccessBinding:
		row := new(bindingRow)
		if err = t.byName(ctx, row, key.Name); err == nil {
			object, err = row.binding()
		}
	case catalog.KindToken: // is no object
		err = sql.ErrNoRows
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &catalog.NotFoundError{Key: key}
	}
	return object, translate("read object", err)
}

func (t *tx) byName(ctx context.Context, row any, name string) error {
	return t.sql.NewSelect().Model(row).Where("name = ?", name).Scan(ctx)
}

// Put implements catalog.Tx.
func (t *tx) Put(ctx context.Context, object catalog.Object) error {
	t.dirty = true
	meta, err := metaRow(object.Meta(), t.revision)
	if err != nil {
		return err
	}
	switch o := object.(type) {
	case *catalog.Cluster:
		err = t.putCluster(ctx, meta, o)
	case *catalog.Repository:
		err = t.putRepository(ctx, meta, o)
	case *catalog.Service:
		err = t.putService(ctx, meta, o)
	case *catalog.User:
		err = t.putUser(ctx, meta, o)
	case *catalog.AccessBinding:
		err = t.putBinding(ctx, meta, o)
	}
	return translate("write object", err)
}

func (t *tx) putCluster(ctx context.Context, meta metaColumns, c *catalog.Cluster) error {
	row := &clusterRow{metaColumns: meta, Description: c.Spec.Description, AgentEndpoint: c.Spec.AgentEndpoint, Report: "{}"}
	if !c.Spec.Settings.IsZero() {
		settings, err := encode(c.Spec.Settings)
		if err != nil {
			return err
		}
		row.Settings = settings
	}
	return t.upsert(ctx, row, "description", "agent_settings", "agent_endpoint")
}

// upsert writes a row; of one that is there only the metadata and the given columns.
func (t *tx) upsert(ctx context.Context, row any, columns ...string) error {
	query := t.sql.NewInsert().Model(row).On("CONFLICT (uid) DO UPDATE")
	columns = append(columns, "labels", "annotations", "resource_version", "generation", "revision", "updated_at")
	for _, column := range columns {
		query = query.Set("? = EXCLUDED.?", bun.Ident(column), bun.Ident(column))
	}
	_, err := query.Exec(ctx)
	return err
}

func (t *tx) putService(ctx context.Context, meta metaColumns, service *catalog.Service) error {
	spec, err := encodeSpec(service.Spec)
	if err != nil {
		return err
	}
	config, err := t.store.columnOf(service)
	if err != nil {
		return err
	}
	row := &serviceRow{metaColumns: meta, Spec: spec, SyncRequest: service.SyncRequest, Config: config}
	err = t.sql.NewSelect().Table("clusters").Column("uid").Where("name = ?", service.Spec.Cluster).Scan(ctx, &row.ClusterUID)
	if err != nil {
		return err
	}
	if err := t.upsert(ctx, row, "spec", "sync_request", "config"); err != nil {
		return err
	}
	if err := t.putSecrets(ctx, service); err != nil {
		return err
	}
	return t.putSources(ctx, service)
}

func (t *tx) putSources(ctx context.Context, service *catalog.Service) error {
	if _, err := t.sql.NewDelete().Table("service_sources").Where("service_uid = ?", service.UID).Exec(ctx); err != nil {
		return err
	}
	names := make([]string, len(service.Spec.Sources))
	for i, source := range service.Spec.Sources {
		names[i] = source.Repository
	}
	_, err := t.sql.NewRaw("INSERT INTO service_sources (service_uid, repository_uid) SELECT ?, uid FROM repositories WHERE name IN (?)",
		service.UID, bun.List(names)).Exec(ctx)
	return err
}

// Delete implements catalog.Tx.
func (t *tx) Delete(ctx context.Context, object catalog.Object) error {
	t.dirty = true
	table := map[catalog.Kind]string{
		catalog.KindCluster: "clusters", catalog.KindRepository: "repositories", catalog.KindService: "services",
		catalog.KindUser: "users", catalog.KindAccessBinding: "access_bindings",
	}[object.Key().Kind]
	if _, err := t.sql.NewDelete().Table(table).Where("uid = ?", object.Meta().UID).Exec(ctx); err != nil {
		return translate("delete object", err)
	}
	return t.bury(ctx, object.Key(), object.Meta().UID)
}

// bury remembers a deletion, and forgets those that are long past.
func (t *tx) bury(ctx context.Context, key catalog.Key, uid string) error {
	stone := &deletionRow{UID: uid, Kind: string(key.Kind), Name: key.Name, Revision: t.revision, DeletedAt: micros(time.Now())}
	if _, err := t.sql.NewInsert().Model(stone).Exec(ctx); err != nil {
		return translate("remember deletion", err)
	}
	old := micros(time.Now().Add(-tombstoneLife))
	_, err := t.sql.NewDelete().Table("deletions").Where("deleted_at < ?", old).Exec(ctx)
	return translate("forget old deletions", err)
}

// Dependents implements catalog.Tx.
func (t *tx) Dependents(ctx context.Context, key catalog.Key) ([]string, error) {
	query := t.sql.NewSelect().TableExpr("services AS s").Column("s.name").Order("s.name").Limit(maxDependents)
	switch key.Kind {
	case catalog.KindCluster:
		query = query.Join("JOIN clusters AS c ON c.uid = s.cluster_uid").Where("c.name = ?", key.Name)
	case catalog.KindRepository:
		query = query.Join("JOIN service_sources AS ss ON ss.service_uid = s.uid").
			Join("JOIN repositories AS r ON r.uid = ss.repository_uid").Where("r.name = ?", key.Name)
	case catalog.KindService, catalog.KindUser, catalog.KindAccessBinding, catalog.KindToken:
		return nil, nil
	}
	var names []string
	err := query.Scan(ctx, &names)
	return names, translate("list dependents", err)
}
