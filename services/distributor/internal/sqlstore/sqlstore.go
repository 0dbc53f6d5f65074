// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package sqlstore keeps the catalog in SQL: in SQLite for one machine, in PostgreSQL for several
// replicas. Both run the same statements.
//
// # Promises
//
// An edit is one transaction. It is visible whole and durable when it returns without an error, and
// leaves no trace otherwise. Edits of all replicas follow one another, and become visible in the
// order of their revisions, so a reader that has seen a revision has seen all before it. A read of
// several tables is of one state. Secrets are sealed, each bound to its object and its column.
//
// # Locks
//
// The row of table revision is the lock of edits: an edit takes the next revision before it reads
// anything, so no other edit changes what it has read. The row also names the key that seals, so no
// edit seals with an older key: see keys.go and reseal.go. Other writes depend on nothing that was
// read before: snapshots, new join tokens and the uses of API tokens. SQLite has one connection, for
// which callers queue. A migration holds an advisory lock of its own.
//
// # Rows and objects
//
// A row is a struct of columns. How the objects of a kind become rows, and which of their columns
// are sealed, is a value of storage; newTables lists the tables of all kinds, with the effects of
// an edit of an object on others. Fields that SQL does not read are a column of JSON, which encodes
// itself. Replicas of earlier and later versions read and write the JSON, like the columns, at the
// same time, so names and meanings stay.
//
// # What it does not do
//
// It does not decide what an edit may contain, does not decide what services obtain, and keeps nothing
// in memory: packages catalog, compose and fleet do.
package sqlstore

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Store is the catalog's store. It is safe for concurrent use.
type Store struct {
	connections

	keys *keyStore
	// tables are the tables of all kinds, in the order of catalog.Kinds.
	tables []table
	// journal records changes. Nil: they leave no records.
	journal Journal
}

// Journal makes the records of changes, and hands them to the audit log. It is safe for concurrent
// use.
type Journal interface {
	// Records returns the records of what one edit changed, in its order. The context holds where the
	// changes come from.
	Records(ctx context.Context, changes []catalog.Change) []*audit.Record
	// Ready blocks until the audit log takes records, or returns an error that matches
	// catalog.ErrUnrecorded. It is called before an edit takes its lock.
	Ready(ctx context.Context) error
	// Write hands records to the audit log, before the edit is committed. The error matches
	// catalog.ErrUnrecorded: the edit must not be committed then.
	Write(ctx context.Context, records []*audit.Record) error
	// Withdraw notes in the audit log that records were written whose edit was not committed.
	Withdraw(records []*audit.Record)
}

// tx is one edit.
type tx struct {
	store    *Store
	sql      bun.Tx
	revision int64
	// isNumbered is true once the revision is the edit's own. Until then it is the revision of the last change.
	isNumbered bool
	// sealingKey is the id of the key that seals until the edit ends.
	sealingKey string
	// dirty is set once something was written.
	dirty bool
	// read are the objects that were read, for the records of their changes, and nil for missing ones.
	// A nil map: nothing is recorded.
	read map[catalog.Key]catalog.Object
	// changes are the ones that were made.
	changes []catalog.Change
}

// table is the table of a kind of objects.
type table struct {
	kind catalog.Kind
	// model is what queries know the table by. The name of a plain kind's table is in the table and not in the model.
	model any
	plain string
	// sealed are the columns of sealed values.
	sealed []sealedColumn
	// get returns the object of that name, with its secrets. Error: sql.ErrNoRows.
	get func(ctx context.Context, t *tx, name string) (catalog.Object, error)
	// put notes and writes an object, and what follows from it.
	put func(ctx context.Context, t *tx, object catalog.Object) error
	// users returns objects that name the object of that name, at most maxDependents. Nil: no kind names this one.
	users func(ctx context.Context, t *tx, name string) ([]catalog.Key, error)
	// end deletes what ends with a deleted object, and SQL does not delete itself. Nil: there is nothing.
	end func(ctx context.Context, t *tx, of *catalog.Metadata) error
	// collect adds the objects that a query selects, without their secrets.
	collect func(ctx context.Context, query *bun.SelectQuery, changes *catalog.Changes) error
}

// from makes a query one of the table.
func (k *table) from(query *bun.SelectQuery) *bun.SelectQuery {
	if query = query.Model(k.model); k.plain != "" {
		query = query.ModelTableExpr("? AS ?TableAlias", bun.Ident(k.plain))
	}
	return query
}

// table returns the table of a kind, or nil if it is not a kind of objects.
func (s *Store) table(kind catalog.Kind) *table {
	for i := range s.tables {
		if s.tables[i].kind == kind {
			return &s.tables[i]
		}
	}
	return nil
}

// opening calls fn, which reads and opens sealed values. If one names a key that this replica does
// not have, opening loads the keys and calls fn once more: another replica has made a new key, or
// has sealed the value again since it was read.
func (s *Store) opening(ctx context.Context, fn func(ctx context.Context) error) error {
	err := fn(ctx)
	if !errors.Is(err, seal.ErrUnknownKey) {
		return err
	}
	if loading := s.keys.load(ctx, s.connections); loading != nil {
		return loading
	}
	return fn(ctx)
}
