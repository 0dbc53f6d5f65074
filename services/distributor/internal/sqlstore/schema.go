// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
)

// schema is the shape of the database, as the migrations of this release make it. Both databases
// have the same.
type schema struct {
	// migrations are their names, in order.
	migrations []string
	// tables are in an order in which their rows may be written: a table comes after the ones that it
	// refers to.
	tables []tableShape
}

// tableShape is the shape of a table.
type tableShape struct {
	name    string
	columns []columnShape
	refers  []string // the tables that its rows refer to
}

// columnShape is the shape of a column.
type columnShape struct {
	name string
	// kind is the declared type: TEXT, BLOB, BOOLEAN, INTEGER or BIGINT.
	kind string
}

// readSchema applies the migrations to a database in memory, and reads what they made.
func readSchema(ctx context.Context) (*schema, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	memory := connections{db: bun.NewDB(db, sqlitedialect.New())}
	memory.reads = memory.db
	defer func() { _ = memory.Close() }() // nothing of it is kept
	if err := memory.migrate(ctx); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	shape := new(schema)
	if shape.migrations, err = appliedMigrations(ctx, memory.db); err == nil {
		shape.tables, err = readTables(ctx, memory.db)
	}
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return shape, nil
}

// appliedMigrations returns the migrations of a database, in order.
func appliedMigrations(ctx context.Context, db bun.IDB) (names []string, err error) {
	err = db.NewRaw("SELECT name FROM bun_migrations ORDER BY name").Scan(ctx, &names)
	return names, err
}

// readTables returns the tables of a SQLite database, except the migrations' own.
func readTables(ctx context.Context, db bun.IDB) ([]tableShape, error) {
	var names []string
	err := db.NewRaw("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'bun_%' ORDER BY name").Scan(ctx, &names)
	tables := make([]tableShape, len(names))
	for i := 0; i < len(names) && err == nil; i++ {
		tables[i], err = readTable(ctx, db, names[i])
	}
	if err != nil {
		return nil, err
	}
	return orderTables(tables)
}

func readTable(ctx context.Context, db bun.IDB, name string) (tableShape, error) {
	table := tableShape{name: name}
	var columns []struct{ Name, Type string }
	if err := db.NewRaw("SELECT name, type FROM pragma_table_info(?) ORDER BY cid", name).Scan(ctx, &columns); err != nil {
		return table, err
	}
	for _, c := range columns {
		table.columns = append(table.columns, columnShape{name: c.Name, kind: c.Type})
	}
	err := db.NewRaw(`SELECT DISTINCT "table" FROM pragma_foreign_key_list(?) ORDER BY 1`, name).Scan(ctx, &table.refers)
	return table, err
}

// orderTables puts each table after the ones that it refers to.
func orderTables(tables []tableShape) ([]tableShape, error) {
	var ordered []tableShape
	isDone := map[string]bool{}
	for len(ordered) < len(tables) {
		before := len(ordered)
		for _, table := range tables {
			isWaiting := slices.ContainsFunc(table.refers, func(name string) bool { return !isDone[name] && name != table.name })
			if !isDone[table.name] && !isWaiting {
				isDone[table.name] = true
				ordered = append(ordered, table)
			}
		}
		if len(ordered) == before {
			return nil, fmt.Errorf("tables refer to one another in a circle")
		}
	}
	return ordered, nil
}

func (s *schema) table(name string) (tableShape, bool) {
	i := slices.IndexFunc(s.tables, func(t tableShape) bool { return t.name == name })
	if i < 0 {
		return tableShape{}, false
	}
	return s.tables[i], true
}

// names returns the names of the columns.
func (t tableShape) names() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return names
}

// quoted returns the columns as SQL. Their names come from the migrations.
func (t tableShape) quoted() string { return `"` + strings.Join(t.names(), `", "`) + `"` }

// value returns a value as the column holds it: databases return truths as numbers, and texts as
// bytes, or not.
func (c columnShape) value(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		switch c.kind {
		case "TEXT":
			return v, nil
		case "BLOB":
			return []byte(v), nil
		}
	case []byte:
		switch c.kind {
		case "TEXT":
			return string(v), nil
		case "BLOB":
			return v, nil
		}
	case int64:
		switch c.kind {
		case "INTEGER", "BIGINT":
			return v, nil
		case "BOOLEAN":
			return v != 0, nil
		}
	case int32:
		return c.value(int64(v))
	case bool:
		if c.kind == "BOOLEAN" {
			return v, nil
		}
	}
	return nil, fmt.Errorf("column %s: got %T, want %s", c.name, v, c.kind)
}
