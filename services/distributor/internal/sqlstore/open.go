// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var (
	_ catalog.Editable    = (*Store)(nil)
	_ catalog.Log         = (*Store)(nil)
	_ catalog.Snapshots   = (*Store)(nil)
	_ catalog.Configs     = (*Store)(nil)
	_ catalog.Definitions = (*Store)(nil)
	_ catalog.Reports     = (*Store)(nil)
	_ catalog.History     = (*Store)(nil)
)

// Open is OpenWith for a database whose root is one secret.
func Open(ctx context.Context, databaseURL string, secret []byte) (*Store, error) {
	root, err := keyroot.NewLocal(secret)
	if err != nil {
		return nil, fmt.Errorf("derive keys of the catalog: %w", err)
	}
	return OpenWith(ctx, databaseURL, Keys{Roots: []keyroot.Root{root}, Secrets: [][]byte{secret}})
}

// OpenWith connects to the database and brings its schema and its keys up to date. Replicas that do
// so at once wait for each other. The URL is sqlite:///path/to/file.db, or postgres://…. OpenWith
// makes the folder of a SQLite file if it does not exist. Only the user of this process can read the
// file and the files that SQLite puts beside it. The keys seal values that readers of the database
// must not see; opening fails if no root unwraps them. The error matches catalog.ErrUnavailable if
// the database, or a root that is needed, does not answer.
func OpenWith(ctx context.Context, databaseURL string, keys Keys) (*Store, error) {
	known, err := newKeyStore(keys)
	if err != nil {
		return nil, err
	}
	opened, err := connect(databaseURL, idleInTransaction)
	if err != nil {
		return nil, err
	}
	s := &Store{connections: opened, keys: known, tables: newTables()}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(translate("migrate", err), s.Close())
	}
	if err := cmp.Or(NewRotation(s).open(ctx), nameConfigs(ctx, s)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newTables returns the tables of all kinds, in the order of catalog.Kinds.
func newTables() []table {
	own := ownTables()
	var all []table
	for _, kind := range catalog.Kinds() {
		if _, _, isPlain := catalog.PlainTable(kind); isPlain {
			all = append(all, plainTable(kind, plainUsers[kind]))
			continue
		}
		all = append(all, own[kind])
	}
	return all
}

// plainUsers find the objects that name one of a plain kind. No kind names the others.
var plainUsers = map[catalog.Kind]func(ctx context.Context, t *tx, name string) ([]catalog.Key, error){
	catalog.KindRole: reading(bindingsOf),
}

// ownTables returns the tables of the kinds that are not plain. Each answers every question that the store has of a kind;
// nil: a Put writes only the row, no kind names this one, or nothing ends with an object.
func ownTables() map[catalog.Kind]table {
	return map[catalog.Kind]table{
		catalog.KindProject:          tableOf(storedProjects, putProject, heldBy, endBootstrapsIn),
		catalog.KindCluster:          tableOf(storedClusters, putCluster, reading(servicesOf), nil),
		catalog.KindRepository:       tableOf(storedRepositories, nil, reading(readsRepository), nil),
		catalog.KindConfigBackend:    tableOf(storedBackends, putBackend, reading(refersToBackend), nil),
		catalog.KindConfigSet:        tableOf(storedSets, putSet, reading(usersOf), nil),
		catalog.KindService:          withDerived(tableOf(storedServices, putService, nil, nil)),
		catalog.KindUser:             tableOf(storedUsers, nil, nil, endBootstrapsBy),
		catalog.KindAccessBinding:    tableOf(storedBindings, nil, nil, nil),
		catalog.KindIdentityProvider: tableOf(storedProviders, nil, nil, nil),
		catalog.KindNotifier:         tableOf(storedNotifiers, nil, nil, nil),
		catalog.KindGlobalService:    tableOf(storedGlobals, putGlobal, nil, nil),
		catalog.KindFleetSource:      tableOf(storedFleetSources, nil, nil, nil),
	}
}

// putting writes the row of an object by upsert, and what follows from the object.
type putting[T catalog.Object, R row] = func(ctx context.Context, t *tx, object T, row R, upsert func() error) error

// tableOf returns the table of a kind.
func tableOf[T catalog.Object, R row](
	s storage[T, R], onPut putting[T, R], users func(ctx context.Context, t *tx, name string) ([]catalog.Key, error),
	end func(ctx context.Context, t *tx, of *catalog.Metadata) error,
) table {
	var none R
	k := table{kind: s.kind, model: none, users: users, end: end}
	for _, part := range s.secrets {
		k.sealed = append(k.sealed, part.sealedColumn)
	}
	k.get = func(ctx context.Context, t *tx, name string) (catalog.Object, error) {
		row, err := s.find(ctx, t.sql, "name", name)
		if err != nil {
			return nil, err
		}
		return s.opened(t.store.keys, row)
	}
	k.put = func(ctx context.Context, t *tx, object catalog.Object) error {
		own, ok := object.(T)
		if !ok {
			return fmt.Errorf("write %s: it is a %T", object.Key(), object)
		}
		if err := t.notePut(ctx, object); err != nil {
			return err
		}
		return translate("write object", write(ctx, t, &s, own, onPut))
	}
	k.collect = func(ctx context.Context, query *bun.SelectQuery, changes *catalog.Changes) (err error) {
		*s.changed(changes), err = s.list(ctx, query)
		return err
	}
	return k
}

func write[T catalog.Object, R row](ctx context.Context, t *tx, s *storage[T, R], object T, onPut putting[T, R]) error {
	row, columns := s.row(object), slices.Clone(s.columns)
	row.put(metaRow(object.Meta(), t.revision))
	for _, part := range s.secrets {
		if err := part.put(t.store.keys, object, row); err != nil {
			return err
		}
		columns = append(columns, part.column)
	}
	upsert := func() error { return replace(ctx, t.sql, row, "uid", slices.Concat(columns, metaEdited)...) }
	if onPut == nil {
		return upsert()
	}
	return onPut(ctx, t, object, row, upsert)
}

// withDerived returns the table of services. Their secrets are in a table of their own, and of a derived service there is
// only what people ask of it, in another one.
func withDerived(services table) table {
	own := services.put
	services.get = func(ctx context.Context, t *tx, name string) (catalog.Object, error) {
		row, err := storedServices.find(ctx, t.sql, "name", name)
		if err != nil {
			return nil, err
		}
		return serviceWithSecrets(ctx, t, row)
	}
	services.put = func(ctx context.Context, t *tx, object catalog.Object) error {
		service, ok := object.(*catalog.Service)
		if !ok || service.Derived == nil {
			return own(ctx, t, object)
		}
		t.note(catalog.Change{
			Verb: catalog.VerbSync, Kind: string(catalog.KindService), Name: service.Name, UID: service.UID, Cluster: service.Spec.Cluster,
		})
		return translate("request sync", putDerived(ctx, t, service))
	}
	return services
}
