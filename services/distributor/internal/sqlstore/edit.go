// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// tombstoneLife is how long deletions are remembered.
const tombstoneLife = 30 * 24 * time.Hour

func newTx(s *Store, sqlTx bun.Tx) *tx {
	t := &tx{store: s, sql: sqlTx}
	if s.journal != nil {
		t.read = map[catalog.Key]catalog.Object{}
	}
	return t
}

// note adds a change to the edit's records.
func (t *tx) note(change catalog.Change) {
	if t.read != nil {
		t.changes = append(t.changes, change)
	}
}

// notePut notes what becomes of a stored object, or of a new one.
func (t *tx) notePut(ctx context.Context, object catalog.Object) error {
	if t.read == nil {
		return nil
	}
	before, ok := t.read[object.Key()]
	if !ok {
		var err error
		if before, err = t.Get(ctx, object.Key()); err != nil && !errors.Is(err, catalog.ErrNotFound) {
			return err
		}
	}
	t.note(catalog.ChangeOf(before, object))
	t.read[object.Key()] = object
	return nil
}

// errClean ends an edit that wrote nothing, so that it takes no revision.
var errClean = errors.New("nothing was written")

// Edit implements catalog.Editable.
func (s *Store) Edit(ctx context.Context, fn func(ctx context.Context, tx catalog.Tx) error) error {
	return s.edit(ctx, func(ctx context.Context, t *tx) error { return fn(ctx, t) })
}

// edit takes the next revision first: its row is the lock by which edits follow one another, and
// become visible in the order of their revisions. It waits for the audit log before that. A write
// without records, such as reports of agents, is an editWith, which does not wait.
func (s *Store) edit(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	if err := ready(ctx, s.journal); err != nil {
		return err
	}
	return s.editWith(ctx, numbered, fn)
}

// editWith is edit with or without a new revision. An edit seals with the newest key: if another
// replica has made one, the edit loads it and begins again.
func (s *Store) editWith(ctx context.Context, n numbering, fn func(ctx context.Context, t *tx) error) error {
	for range maxKeyLoads {
		err := s.transact(ctx, n, func(ctx context.Context, t *tx) error {
			if t.sealingKey != s.keys.ring.Current().String() {
				return errStaleKeys
			}
			return fn(ctx, t)
		})
		if !errors.Is(err, errStaleKeys) {
			return err
		}
		if err := s.keys.load(ctx, s.connections); err != nil {
			return err
		}
	}
	return fmt.Errorf("edit catalog: %w", errStaleKeys)
}

// maxKeyLoads bounds the attempts of one edit: each follows a rotation that came between.
const maxKeyLoads = 5

// errStaleKeys ends an edit whose replica does not have the newest sealing key.
var errStaleKeys = errors.New("the sealing keys have changed")

// numbering is whether a transaction that holds the lock of edits is a change of the catalog.
type numbering int

const (
	numbered numbering = 1 // takes a revision
	quietly  numbering = 0 // changes how something is stored, which no reader notices, until number is called
)

// number makes an edit a change of the catalog, if it is not one yet. The edit holds the lock, so no other one has
// taken a revision since it began.
func (t *tx) number(ctx context.Context) error {
	t.dirty = true
	if t.isNumbered {
		return nil
	}
	t.isNumbered = true
	err := t.sql.NewRaw("UPDATE revision SET value = value + 1 WHERE id = 1 RETURNING value").Scan(ctx, &t.revision)
	return translate("take revision", err)
}

// transact runs fn in a transaction that holds the lock of edits.
func (s *Store) transact(ctx context.Context, n numbering, fn func(ctx context.Context, t *tx) error) error {
	var own error
	var written []*audit.Record
	err := s.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error {
		t := newTx(s, sqlTx)
		t.isNumbered = n == numbered
		incarnation := ""
		err := sqlTx.NewRaw("UPDATE revision SET value = value + ? WHERE id = 1 RETURNING value, sealing_key, incarnation", int(n)).
			Scan(ctx, &t.revision, &t.sealingKey, &incarnation)
		if err != nil {
			return err
		}
		if s.keys.isReplaced(incarnation) {
			own = catalog.ErrReplaced
			return own
		}
		if own = fn(ctx, t); own != nil {
			return own
		}
		if !t.dirty {
			own = errClean
			return own
		}
		written, own = recordChanges(ctx, s.journal, sqlTx, t.changes)
		return own
	})
	if err != nil && own == nil && len(written) > 0 {
		s.journal.Withdraw(written)
	}
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
func (t *tx) Get(ctx context.Context, key catalog.Key) (object catalog.Object, err error) {
	table := t.store.table(key.Kind)
	if table == nil {
		return nil, &catalog.NotFoundError{Key: key}
	}
	object, err = table.get(ctx, t, key.Name)
	isAbsent := errors.Is(err, sql.ErrNoRows)
	if t.read != nil && (err == nil || isAbsent) {
		t.read[key] = object
	}
	if isAbsent {
		return nil, &catalog.NotFoundError{Key: key}
	}
	return object, translate("read object", err)
}

// Clusters implements catalog.Reader.
func (t *tx) Clusters(ctx context.Context, names []string) (map[string]catalog.Object, error) {
	found := make(map[string]catalog.Object, len(names))
	for some := range slices.Chunk(names, maxKeys) {
		all, err := storedClusters.list(ctx, t.sql.NewSelect().Where("name IN (?)", bun.List(some)))
		if err != nil {
			return nil, translate("read clusters", err)
		}
		for _, cluster := range all {
			found[cluster.Name] = cluster
		}
	}
	return found, nil
}

// Put implements catalog.Tx.
func (t *tx) Put(ctx context.Context, object catalog.Object) error {
	t.dirty = true
	return t.store.table(object.Key().Kind).put(ctx, t, object)
}

// metaEdited are the columns of metadata that an edit of a stored object writes.
var metaEdited = []string{
	"labels", "annotations", "resource_version", "generation", "revision", "updated_at", "updated_by", "reason", "manager", "manager_uid",
}

// Delete implements catalog.Tx.
func (t *tx) Delete(ctx context.Context, object catalog.Object) error {
	t.dirty = true
	t.note(catalog.ChangeOf(object, nil))
	if t.read != nil {
		t.read[object.Key()] = nil
	}
	table := t.store.table(object.Key().Kind)
	query := t.sql.NewDelete().Model(table.model).Where("uid = ?", object.Meta().UID)
	if table.plain != "" {
		query = query.ModelTableExpr("?", bun.Ident(table.plain))
	}
	if _, err := query.Exec(ctx); err != nil {
		return translate("delete object", err)
	}
	if err := forgetAuthors(ctx, t.sql, object.Meta().UID); err != nil {
		return err
	}
	if table.end != nil {
		if err := table.end(ctx, t, object.Meta()); err != nil {
			return err
		}
	}
	return bury(ctx, t, object.Key(), object.Meta().UID)
}

// bury remembers a deletion, and forgets old ones.
func bury(ctx context.Context, t *tx, key catalog.Key, uid string) error {
	stone := &deletionRow{UID: uid, Kind: string(key.Kind), Name: key.Name, Revision: t.revision, DeletedAt: micros(time.Now())}
	if _, err := t.sql.NewInsert().Model(stone).Exec(ctx); err != nil {
		return translate("remember deletion", err)
	}
	old := micros(time.Now().Add(-tombstoneLife))
	_, err := t.sql.NewDelete().Table("deletions").Where("deleted_at < ?", old).Exec(ctx)
	return translate("forget old deletions", err)
}

// Dependents implements catalog.Tx.
func (t *tx) Dependents(ctx context.Context, key catalog.Key) ([]catalog.Key, error) {
	table := t.store.table(key.Kind)
	if table == nil || table.users == nil {
		return nil, nil
	}
	return table.users(ctx, t, key.Name)
}

// Count implements catalog.Tx.
func (t *tx) Count(ctx context.Context, project string, kind catalog.Kind) (int, error) {
	n, err := t.store.table(kind).from(t.sql.NewSelect()).Where("project = ?", project).Count(ctx)
	return int(n), translate("count objects of a project", err)
}

// AllOf implements catalog.Tx.
func (t *tx) AllOf(ctx context.Context, kind catalog.Kind) ([]catalog.Plain, error) {
	changes := catalog.Changes{}
	err := t.store.table(kind).collect(ctx, t.sql.NewSelect(), &changes)
	return changes.Plain, translate("read objects", err)
}

// SourcesReading implements catalog.Tx.
func (t *tx) SourcesReading(ctx context.Context, repository string) ([]*catalog.FleetSource, error) {
	sources, err := storedFleetSources.list(ctx, t.sql.NewSelect().Where("repository = ?", repository))
	return sources, translate("read fleet sources of a repository", err)
}

// SpecBytes implements catalog.Tx.
func (t *tx) SpecBytes(ctx context.Context, cluster, except string) (int, error) {
	var total int
	err := t.sql.NewSelect().TableExpr("services AS s").ColumnExpr("COALESCE(SUM(LENGTH(s.spec)), 0)").
		Join("JOIN clusters AS c ON c.uid = s.cluster_uid").Where("c.name = ?", cluster).Where("s.name <> ?", except).
		Scan(ctx, &total)
	return total, translate("count bytes of specs", err)
}
