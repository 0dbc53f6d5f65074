// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/leatdev/leat/services/distributor/internal/keys/backup"
)

var (
	// ErrNoDatabase is in the chain of the error when there is nothing to back up.
	ErrNoDatabase = errors.New("the database holds no hub")
	// ErrSchema is in the chain of the error when a database or a backup belongs to another release.
	ErrSchema = errors.New("another release made this")
)

// Snapshot is one state of a database, to be written to a backup. A hub may use the database at the
// same time: it waits for nothing that a snapshot does.
type Snapshot struct {
	from   connections
	keys   *keyStore
	schema *schema
}

// OpenSnapshot opens a database to back it up. It changes nothing there, and makes no database. The
// keys must open the database: otherwise the backup could not be restored with the same settings.
// The errors match catalog.ErrUnavailable, [ErrNoDatabase] or [ErrSchema], or name the missing key.
func OpenSnapshot(ctx context.Context, databaseURL string, keys Keys) (*Snapshot, error) {
	known, err := newKeyStore(keys)
	if err != nil {
		return nil, err
	}
	shape, err := readSchema(ctx)
	if err != nil {
		return nil, err
	}
	opened, err := connectBeside(databaseURL)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{from: opened, keys: known, schema: shape}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the connections.
func (s *Snapshot) Close() error { return s.from.Close() }

// connectBeside is connect, except that it opens a SQLite file beside the hub that has it open, and
// makes none.
func connectBeside(databaseURL string) (connections, error) {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme != "sqlite" {
		return connect(databaseURL, 0)
	}
	file, err := sqliteFile(u)
	if err != nil {
		return connections{}, err
	}
	if _, err := os.Stat(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return connections{}, fmt.Errorf("%w: there is no file %s", ErrNoDatabase, file)
		}
		return connections{}, fmt.Errorf("open database: %w", err)
	}
	reader, err := sql.Open("sqlite", sqliteSource(file, readPragmas()))
	if err != nil {
		return connections{}, fmt.Errorf("open sqlite: %w", err)
	}
	reader.SetMaxOpenConns(1)
	db := bun.NewDB(reader, sqlitedialect.New())
	return connections{db: db, reads: db}, nil
}

// check compares the schema, and opens the keys.
func (s *Snapshot) check(ctx context.Context) error {
	if err := s.from.Ping(ctx); err != nil {
		return err
	}
	applied, err := appliedMigrations(ctx, s.from.db)
	if err != nil {
		if err := translate("read migrations", err); unavailable(err) {
			return err
		}
		return fmt.Errorf("%w: it has no tables of Leat's", ErrNoDatabase)
	}
	if err := s.schema.compare(applied); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return s.keys.load(ctx, s.from)
}

// compare checks that migrations are this release's.
func (s *schema) compare(applied []string) error {
	if slices.Equal(applied, s.migrations) {
		return nil
	}
	return fmt.Errorf("%w: it has %d migrations, the last of them %s, and this release has %d, the last of them %s; use the release that "+
		"made it", ErrSchema, len(applied), last(applied), len(s.migrations), last(s.migrations))
}

// last returns the last of some names, or "none".
func last(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return names[len(names)-1]
}

// Schema returns the names of the migrations.
func (s *Snapshot) Schema() []string { return s.schema.migrations }

// Write writes one state of all tables, and returns the number of rows. It holds one row at a time.
func (s *Snapshot) Write(ctx context.Context, to *backup.Writer) (rows int64, err error) {
	err = s.from.read(ctx, "read database", func(ctx context.Context, tx bun.Tx) error {
		for _, table := range s.schema.tables {
			written, err := writeTable(ctx, tx, to, table)
			if err != nil {
				return fmt.Errorf("table %s: %w", table.name, err)
			}
			rows += written
		}
		return nil
	})
	return rows, err
}

func writeTable(ctx context.Context, tx bun.Tx, to *backup.Writer, table tableShape) (written int64, err error) {
	if err := to.Table(backup.Table{Name: table.name, Columns: table.names()}); err != nil {
		return 0, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT "+table.quoted()+` FROM "`+table.name+`"`)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values, places := make([]any, len(table.columns)), make([]any, len(table.columns))
	for i := range values {
		places[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return written, err
		}
		row := make(backup.Row, len(values))
		for i, column := range table.columns {
			if row[i], err = column.value(values[i]); err != nil {
				return written, err
			}
		}
		if err := to.Row(row); err != nil {
			return written, err
		}
		written++
	}
	return written, rows.Err()
}
