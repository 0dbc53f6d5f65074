// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// objects is the table of a kind of objects, whatever the kind.
type objects interface {
	of() catalog.Kind
	// model is what queries know the table by.
	model() any
	// get returns the object of that name, with its secrets. Error: sql.ErrNoRows.
	get(ctx context.Context, t *tx, name string) (catalog.Object, error)
	// put notes and writes an object, and what follows from it.
	put(ctx context.Context, t *tx, object catalog.Object) error
	// end deletes what ends with a deleted object, and SQL does not delete itself.
	end(ctx context.Context, t *tx, object catalog.Object) error
	// dependents returns objects that name the object of that name, at most maxDependents.
	dependents(ctx context.Context, t *tx, name string) ([]catalog.Key, error)
	// collect adds the objects that a query selects, without their secrets.
	collect(ctx context.Context, query *bun.SelectQuery, changes *catalog.Changes) error
	sealed() []sealedColumn
}

// table is the table of a kind, with what an edit of an object means for others.
type table[T catalog.Object, R row] struct {
	storage[T, R]

	// onPut writes the row of an object by upsert, and beside it what follows from the object. Nil: nothing does.
	onPut func(ctx context.Context, t *tx, object T, row R, upsert func() error) error
	// users returns objects that name the object of that name, at most maxDependents. Nil: no kind names this one.
	users func(ctx context.Context, t *tx, name string) ([]catalog.Key, error)
	// onDelete deletes what ends with an object, and SQL does not delete itself. Nil: there is nothing.
	onDelete func(ctx context.Context, t *tx, object T) error
}

func tableOf[T catalog.Object, R row](
	s storage[T, R], onPut func(context.Context, *tx, T, R, func() error) error, users func(context.Context, *tx, string) ([]catalog.Key, error),
	onDelete func(context.Context, *tx, T) error,
) *table[T, R] {
	return &table[T, R]{storage: s, onPut: onPut, users: users, onDelete: onDelete}
}

func (k *table[T, R]) of() catalog.Kind { return k.kind }

func (k *table[T, R]) model() any {
	var none R
	return none
}

func (k *table[T, R]) get(ctx context.Context, t *tx, name string) (catalog.Object, error) {
	row, err := k.find(ctx, t.sql, "name", name)
	if err != nil {
		return nil, err
	}
	return k.opened(t.store.keys, row)
}

func (k *table[T, R]) put(ctx context.Context, t *tx, object catalog.Object) error {
	if err := t.notePut(ctx, object); err != nil {
		return err
	}
	own, ok := object.(T)
	if !ok {
		return fmt.Errorf("write %s: it is a %T", object.Key(), object)
	}
	return translate("write object", k.write(ctx, t, own))
}

func (k *table[T, R]) write(ctx context.Context, t *tx, object T) error {
	row, columns := k.row(object), slices.Clone(k.columns)
	row.put(metaRow(object.Meta(), t.revision))
	for i := range k.secrets {
		if err := k.secrets[i].seal(t.store.keys, object, row); err != nil {
			return err
		}
		columns = append(columns, k.secrets[i].column)
	}
	upsert := func() error { return t.upsert(ctx, row, columns...) }
	if k.onPut == nil {
		return upsert()
	}
	return k.onPut(ctx, t, object, row, upsert)
}

func (k *table[T, R]) end(ctx context.Context, t *tx, object catalog.Object) error {
	own, ok := object.(T)
	if k.onDelete == nil || !ok {
		return nil
	}
	return k.onDelete(ctx, t, own)
}

func (k *table[T, R]) dependents(ctx context.Context, t *tx, name string) ([]catalog.Key, error) {
	if k.users == nil {
		return nil, nil
	}
	return k.users(ctx, t, name)
}

func (k *table[T, R]) collect(ctx context.Context, query *bun.SelectQuery, changes *catalog.Changes) (err error) {
	*k.changed(changes), err = k.list(ctx, query)
	return err
}

func (k *table[T, R]) sealed() []sealedColumn {
	columns := make([]sealedColumn, len(k.secrets))
	for i := range k.secrets {
		columns[i] = k.secrets[i].sealedColumn
	}
	return columns
}
