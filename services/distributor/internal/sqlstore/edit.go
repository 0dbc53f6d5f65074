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

	"github.com/leatdev/leat/internal/audit"
	"github.com/leatdev/leat/internal/objectname"
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
	// sealingKey is the id of the key that seals until the edit ends.
	sealingKey string
	// dirty is set once something was written.
	dirty bool
	// read are the objects that were read, for the records of their changes, and nil for those that are not
	// there. A nil map: nothing is recorded.
	read map[catalog.Key]catalog.Object
	// changes are those that were made.
	changes []catalog.Change
}

// errClean ends an edit that wrote nothing, so that it takes no revision.
var errClean = errors.New("nothing was written")

// Edit implements catalog.Editable.
func (s *Store) Edit(ctx context.Context, fn func(ctx context.Context, tx catalog.Tx) error) error {
	return s.edit(ctx, func(ctx context.Context, t *tx) error { return fn(ctx, t) })
}

// edit takes the next revision first: its row is the lock by which edits follow one another, and
// become visible in the order of their revisions. It waits for the audit log before that. What leaves no
// records, such as the reports of agents, is an editWith, which does not wait.
func (s *Store) edit(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	if err := ready(ctx, s); err != nil {
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
		if err := s.loadKeys(ctx); err != nil {
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
	quietly  numbering = 0 // changes how something is stored, which no reader notices
)

// transact runs fn in a transaction that holds the lock of edits.
func (s *Store) transact(ctx context.Context, n numbering, fn func(ctx context.Context, t *tx) error) error {
	var own error
	var written []*audit.Record
	err := s.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error {
		t := newTx(s, sqlTx)
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

// row is the row of an object.
type row interface {
	// object returns the object with its secrets.
	object(ctx context.Context, t *tx) (catalog.Object, error)
}

// newRow returns an empty row for objects of a kind, or nil if it is not a kind of objects.
func newRow(kind catalog.Kind) row {
	switch kind {
	case catalog.KindCluster:
		return new(clusterRow)
	case catalog.KindRepository:
		return new(repositoryRow)
	case catalog.KindService:
		return new(serviceRow)
	case catalog.KindUser:
		return new(userRow)
	case catalog.KindAccessBinding:
		return new(bindingRow)
	case catalog.KindRole:
		return new(roleRow)
	case catalog.KindProject:
		return new(projectRow)
	case catalog.KindIdentityProvider:
		return new(providerRow)
	case catalog.KindTrustRule:
		return new(trustRow)
	case catalog.KindConfigBackend:
		return new(backendRow)
	case catalog.KindConfigSet:
		return new(setRow)
	case catalog.KindNotifier:
		return new(notifierRow)
	case catalog.KindGlobalService:
		return new(globalRow)
	case catalog.KindRolloutPolicy:
		return new(policyRow)
	case catalog.KindFleetSource:
		return new(fleetSourceRow)
	case catalog.KindToken, catalog.KindSession:
	}
	return nil
}

func (r *clusterRow) object(context.Context, *tx) (catalog.Object, error) { return r.cluster(), nil }

func (r *repositoryRow) object(_ context.Context, t *tx) (catalog.Object, error) {
	return t.store.opened(r)
}

func (r *serviceRow) object(ctx context.Context, t *tx) (catalog.Object, error) {
	return t.serviceWithSecrets(ctx, r)
}

func (r *userRow) object(context.Context, *tx) (catalog.Object, error) { return r.user(), nil }

func (r *bindingRow) object(context.Context, *tx) (catalog.Object, error) { return r.binding(), nil }

func (r *projectRow) object(context.Context, *tx) (catalog.Object, error) { return r.project(), nil }
func (r *roleRow) object(context.Context, *tx) (catalog.Object, error)    { return r.role(), nil }

// Get implements catalog.Tx.
func (t *tx) Get(ctx context.Context, key catalog.Key) (object catalog.Object, err error) {
	row := newRow(key.Kind)
	if row == nil {
		return nil, &catalog.NotFoundError{Key: key}
	}
	if err = t.sql.NewSelect().Model(row).Where("name = ?", key.Name).Scan(ctx); err == nil {
		object, err = row.object(ctx, t)
	}
	isAbsent := errors.Is(err, sql.ErrNoRows)
	if t.read != nil && (err == nil || isAbsent) {
		t.read[key] = object
	}
	if isAbsent {
		return nil, &catalog.NotFoundError{Key: key}
	}
	return object, translate("read object", err)
}

// Clusters implements catalog.Tx.
func (t *tx) Clusters(ctx context.Context, names []string) (map[string]*catalog.Cluster, error) {
	found := make(map[string]*catalog.Cluster, len(names))
	for some := range slices.Chunk(names, maxKeys) {
		var rows []*clusterRow
		if err := t.sql.NewSelect().Model(&rows).Where("name IN (?)", bun.List(some)).Scan(ctx); err != nil {
			return nil, translate("read clusters", err)
		}
		for _, row := range rows {
			found[row.Name] = row.cluster()
		}
	}
	return found, nil
}

// Put implements catalog.Tx.
func (t *tx) Put(ctx context.Context, object catalog.Object) (err error) {
	t.dirty = true
	if service, ok := object.(*catalog.Service); ok && service.Derived != nil {
		key := service.Key()
		t.note(catalog.Change{Verb: catalog.VerbSync, Kind: string(key.Kind), Name: key.Name, UID: service.UID, Cluster: service.Spec.Cluster})
		return translate("request sync", putDerived(ctx, t, service))
	}
	if err := t.notePut(ctx, object); err != nil {
		return err
	}
	meta := metaRow(object.Meta(), t.revision)
	switch o := object.(type) {
	case *catalog.Cluster:
		row := &clusterRow{
			metaColumns: meta, Project: objectname.Project(o.Name), Description: o.Spec.Description, AgentEndpoint: o.Spec.AgentEndpoint, Settings: columnOf(o.Spec.Settings),
		}
		err = putCluster(ctx, t, o, row)
	case *catalog.Repository:
		err = t.putRepository(ctx, meta, o)
	case *catalog.Service:
		err = t.putService(ctx, meta, o)
	case *catalog.GlobalService:
		err = putGlobal(ctx, t, meta, o)
	case *catalog.User:
		row := &userRow{metaColumns: meta, Description: o.Spec.Description, Groups: columnOf(o.Spec.Groups)}
		err = t.upsert(ctx, row, "description", "groups")
	case *catalog.AccessBinding:
		err = t.upsert(ctx, &bindingRow{metaColumns: meta, Spec: columnOf(o.Spec)}, "spec")
	case *catalog.Project:
		err = putProject(ctx, t, meta, o)
	case *catalog.IdentityProvider:
		err = putProvider(ctx, t, meta, o)
	case *catalog.TrustRule:
		err = t.upsert(ctx, &trustRow{metaColumns: meta, Spec: columnOf(o.Spec)}, "spec")
	case *catalog.ConfigBackend:
		err = t.putBackend(ctx, meta, o)
	case *catalog.ConfigSet:
		err = putSet(ctx, t, meta, o)
	case *catalog.Notifier:
		err = t.putNotifier(ctx, meta, o)
	case *catalog.RolloutPolicy:
		err = t.upsert(ctx, &policyRow{metaColumns: meta, Project: objectname.Project(o.Name), Spec: columnOf(o.Spec)}, "spec")
	case *catalog.FleetSource:
		err = t.putFleetSource(ctx, meta, o)
	case *catalog.Role:
		err = t.upsert(ctx, &roleRow{metaColumns: meta, Spec: columnOf(o.Spec)}, "spec")
	}
	return translate("write object", err)
}

// upsert writes a row; of one that is there only the metadata and the given columns.
func (t *tx) upsert(ctx context.Context, row any, columns ...string) error {
	columns = append(columns, "labels", "annotations", "resource_version", "generation", "revision", "updated_at", "updated_by", "reason", "manager", "manager_uid")
	return t.replace(ctx, row, "uid", columns...)
}

// replace writes a row, or the rows of a slice. Of a row that is there, known by the columns of the
// key, it writes only the given columns.
func (t *tx) replace(ctx context.Context, rows any, key string, columns ...string) error {
	query := t.sql.NewInsert().Model(rows).On("CONFLICT (" + key + ") DO UPDATE")
	for _, column := range columns {
		query = query.Set("? = EXCLUDED.?", bun.Ident(column), bun.Ident(column))
	}
	_, err := query.Exec(ctx)
	return err
}

// replaceAll is replace for any number of rows.
func replaceAll[Row any](ctx context.Context, t *tx, rows []Row, key string, columns ...string) error {
	for chunk := range slices.Chunk(rows, maxRows) {
		if err := t.replace(ctx, &chunk, key, columns...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) putService(ctx context.Context, meta metaColumns, service *catalog.Service) error {
	row := &serviceRow{
		metaColumns: meta, Project: objectname.Project(service.Name), Spec: columnOf(specOf(service.Spec)), SyncRequest: service.SyncRequest, Config: columnOf(configOf(service.Spec.Config)),
	}
	err := t.sql.NewSelect().Table("clusters").Column("uid").Where("name = ?", service.Spec.Cluster).Scan(ctx, &row.ClusterUID)
	if err != nil {
		return err
	}
	if err := t.upsert(ctx, row, "spec", "sync_request", "config"); err != nil {
		return err
	}
	if err := t.putSecrets(ctx, service); err != nil {
		return err
	}
	if err := t.putSources(ctx, service); err != nil {
		return err
	}
	_, err = settle(ctx, t, []string{service.UID}, numbered)
	return err
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
	t.note(catalog.ChangeOf(object, nil))
	if t.read != nil {
		t.read[object.Key()] = nil
	}
	if _, err := t.sql.NewDelete().Model(newRow(object.Key().Kind)).Where("uid = ?", object.Meta().UID).Exec(ctx); err != nil {
		return translate("delete object", err)
	}
	if err := forgetAuthors(ctx, t, object.Meta().UID); err != nil {
		return err
	}
	if err := endBootstrapsOf(ctx, t, object); err != nil {
		return err
	}
	return bury(ctx, t, object.Key(), object.Meta().UID)
}

// bury remembers a deletion, and forgets those that are long past.
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
	query := t.sql.NewSelect().TableExpr("services AS s").Column("s.name").Order("s.name").Limit(maxDependents)
	switch key.Kind {
	case catalog.KindCluster:
		query = query.Join("JOIN clusters AS c ON c.uid = s.cluster_uid").Where("c.name = ?", key.Name)
	case catalog.KindRepository:
		if keys, err := t.fleetSourcesOf(ctx, key.Name); err != nil || len(keys) > 0 {
			return keys, err
		}
		query = query.Join("JOIN service_sources AS ss ON ss.service_uid = s.uid").
			Join("JOIN repositories AS r ON r.uid = ss.repository_uid").Where("r.name = ?", key.Name)
	case catalog.KindConfigBackend:
		query = query.Where(`s.uid IN (SELECT cr.service_uid FROM config_references AS cr JOIN config_entries AS ce ON ce.id = cr.entry_id
			JOIN config_backends AS cb ON cb.uid = ce.backend_uid WHERE cb.name = ?)`, key.Name)
	case catalog.KindConfigSet:
		return usersOf(ctx, t, key.Name)
	case catalog.KindProject:
		return t.held(ctx, key.Name)
	case catalog.KindRole:
		return bindingsWith(ctx, t, catalog.RoleName(key.Name))
	case catalog.KindService, catalog.KindUser, catalog.KindAccessBinding, catalog.KindIdentityProvider, catalog.KindTrustRule, catalog.KindNotifier, catalog.KindGlobalService,
		catalog.KindRolloutPolicy, catalog.KindFleetSource, catalog.KindToken, catalog.KindSession:
		return nil, nil
	}
	var names []string
	err := query.Scan(ctx, &names)
	keys := make([]catalog.Key, len(names))
	for i, name := range names {
		keys[i] = catalog.Key{Kind: catalog.KindService, Name: name}
	}
	if err == nil && key.Kind == catalog.KindRepository && len(keys) < maxDependents {
		globals, err := globalsReading(ctx, t, key.Name, int64(maxDependents-len(keys)))
		if keys = append(keys, globals...); err != nil || len(keys) > 0 {
			return keys, err
		}
		return heldReading(ctx, t, key.Name)
	}
	if err == nil && key.Kind == catalog.KindConfigBackend && len(keys) < maxDependents {
		globals, err := globalsReferring(ctx, t, key.Name, int64(maxDependents-len(keys)))
		return append(keys, globals...), err
	}
	return keys, translate("list dependents", err)
}

// bindingsWith returns the bindings that give a role, at most maxDependents. Their specs are JSON,
// so it reads all of them; roles are rarely deleted.
func bindingsWith(ctx context.Context, t *tx, role catalog.RoleName) ([]catalog.Key, error) {
	var rows []*bindingRow
	err := t.sql.NewSelect().Model(&rows).Order("name").Scan(ctx)
	var keys []catalog.Key
	for _, row := range rows {
		if row.Spec.v.Role == role && len(keys) < maxDependents {
			keys = append(keys, row.binding().Key())
		}
	}
	return keys, translate("list bindings of role", err)
}

// SpecBytes implements catalog.Tx.
func (t *tx) SpecBytes(ctx context.Context, cluster, except string) (int, error) {
	var total int
	err := t.sql.NewSelect().TableExpr("services AS s").ColumnExpr("COALESCE(SUM(LENGTH(s.spec)), 0)").
		Join("JOIN clusters AS c ON c.uid = s.cluster_uid").Where("c.name = ?", cluster).Where("s.name <> ?", except).
		Scan(ctx, &total)
	return total, translate("count bytes of specs", err)
}
