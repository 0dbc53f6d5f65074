// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// hubRow is an object of a plain kind that belongs to the hub, and ownedRow one of a kind in projects. Each kind has a
// table of its own; its name is given to each query.
type hubRow struct {
	bun.BaseModel `bun:"table:objects,alias:o"`
	metaColumns
	Spec string `bun:"spec"`
}

type ownedRow struct {
	bun.BaseModel `bun:"table:objects,alias:o"`
	ownedColumns
	Spec string `bun:"spec"`
}

func (r *hubRow) text() *string   { return &r.Spec }
func (r *ownedRow) text() *string { return &r.Spec }

// textRow is a pointer to the row of an object whose spec is a text of JSON.
type textRow interface {
	row
	metadata() catalog.Metadata
	text() *string
}

// plainTable returns the table of a plain kind. users is as in table.
func plainTable(kind catalog.Kind, users func(context.Context, *tx, string) ([]catalog.Key, error)) table {
	if kind.InProject() {
		return plainTableOf[ownedRow](kind, users)
	}
	return plainTableOf[hubRow](kind, users)
}

func plainTableOf[R any, P interface {
	*R
	textRow
}](kind catalog.Kind, users func(context.Context, *tx, string) ([]catalog.Key, error)) table {
	name, empty, _ := catalog.PlainTable(kind)
	k := table{kind: kind, model: P(nil), plain: name, users: users}
	k.get = func(ctx context.Context, t *tx, name string) (catalog.Object, error) {
		row := P(new(R))
		if err := k.from(t.sql.NewSelect()).Where("name = ?", name).Scan(ctx, row); err != nil {
			return nil, err
		}
		return plainObject(row, empty())
	}
	k.put = func(ctx context.Context, t *tx, object catalog.Object) error {
		own, ok := object.(catalog.Plain)
		if !ok {
			return fmt.Errorf("write %s: it is a %T", object.Key(), object)
		}
		if err := t.notePut(ctx, object); err != nil {
			return err
		}
		text, err := encode(own.SpecAt())
		if err != nil {
			return err
		}
		row := P(new(R))
		row.put(metaRow(object.Meta(), t.revision))
		*row.text() = text
		query := t.sql.NewInsert().Model(row).ModelTableExpr("? AS ?TableAlias", bun.Ident(name))
		return translate("write object", replaceBy(ctx, query, "uid", slices.Concat(metaEdited, []string{"spec"})...))
	}
	k.collect = func(ctx context.Context, query *bun.SelectQuery, changes *catalog.Changes) error {
		var rows []P
		if err := k.from(query).Scan(ctx, &rows); err != nil {
			return err
		}
		for _, row := range rows {
			object, err := plainObject(row, empty())
			if err != nil {
				return err
			}
			changes.Plain = append(changes.Plain, object)
		}
		return nil
	}
	return k
}

// plainObject fills an empty object from its row. As in other tables, an empty text is an empty spec.
func plainObject(row textRow, object catalog.Plain) (catalog.Plain, error) {
	*object.Meta() = row.metadata()
	if *row.text() == "" {
		return object, nil
	}
	return object, decode("spec", *row.text(), object.SpecAt())
}

// makePlainTables makes the tables of plain kinds that no migration has made: a new plain kind needs none. It leaves a
// table alone that is there. To make an index that exists would wait for the edits of other replicas, and let later edits
// wait for itself.
func makePlainTables(ctx context.Context, db *bun.DB) error {
	for _, kind := range catalog.Kinds() {
		name, _, ok := catalog.PlainTable(kind)
		if !ok {
			continue
		}
		if _, err := db.ExecContext(ctx, "SELECT 1 FROM "+name+" LIMIT 0"); err == nil {
			continue
		}
		err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return makePlainTable(ctx, tx, name, kind.InProject()) })
		if err != nil {
			return fmt.Errorf("make table %s: %w", name, err)
		}
	}
	return nil
}

func makePlainTable(ctx context.Context, tx bun.Tx, name string, isInProject bool) error {
	columns, indexes := "", []string{"revision"}
	if isInProject {
		columns, indexes = "project TEXT NOT NULL, ", append(indexes, "project")
	}
	statements := []string{"CREATE TABLE " + name + ` (
    uid TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, ` + columns + `labels TEXT NOT NULL, annotations TEXT NOT NULL, spec TEXT NOT NULL,
    resource_version BIGINT NOT NULL, generation BIGINT NOT NULL, revision BIGINT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
    created_by TEXT NOT NULL DEFAULT '', updated_by TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
    manager TEXT NOT NULL DEFAULT '', manager_uid TEXT NOT NULL DEFAULT ''
)`}
	for _, column := range indexes {
		statements = append(statements, fmt.Sprintf("CREATE INDEX %s_%s ON %s (%s)", name, column, name, column))
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
