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
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	// The driver "sqlite".
	_ "modernc.org/sqlite"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/private"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxConns bounds the connections to PostgreSQL. Reads are answered from memory, so few are needed.
const maxConns = 8

// Store is the catalog's store. It is safe for concurrent use.
type Store struct {
	db *bun.DB
	// reads is where [Store.read] reads: db, or connections of their own, which do not wait for an edit.
	reads    *bun.DB
	postgres bool
	keys     *keyStore
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

// read runs fn on one state of the database.
func (s *Store) read(ctx context.Context, verb string, fn func(ctx context.Context, tx bun.Tx) error) error {
	options := &sql.TxOptions{}
	if s.postgres {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return translate(verb, s.reads.RunInTx(ctx, options, fn))
}

// opening calls fn, which reads and opens sealed values. If one names a key that this replica does
// not have, opening loads the keys and calls fn once more: another replica has made a new key, or
// has sealed the value again since it was read.
func (s *Store) opening(ctx context.Context, fn func(ctx context.Context) error) error {
	err := fn(ctx)
	if !errors.Is(err, seal.ErrUnknownKey) {
		return err
	}
	if loading := s.loadKeys(ctx); loading != nil {
		return loading
	}
	return fn(ctx)
}

// loadKeys reads the keys and unwraps the ones that this replica does not have yet.
func (s *Store) loadKeys(ctx context.Context) error {
	k := s.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	var state editLockRow
	var rows []*sealingKeyRow
	err := s.read(ctx, "read keys", func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		if err := tx.NewSelect().Model(&state).Where("id = 1").Scan(ctx); err != nil {
			return err
		}
		return tx.NewSelect().Model(&rows).Scan(ctx)
	})
	if err != nil {
		return err
	}
	if k.isReplaced(state.Incarnation) {
		return catalog.ErrReplaced
	}
	k.incarnation.Store(&state.Incarnation)
	next := make(map[string]keyPlain, len(rows))
	for _, row := range rows {
		known, ok := k.plain[row.ID]
		if !ok || known.root != row.Root {
			if known, err = k.unwrap(ctx, row); err != nil {
				return err
			}
		}
		next[row.ID] = known
	}
	return k.adopt(state.SealingKey, next)
}

// Close ends the connections.
func (s *Store) Close() error {
	if s.reads == s.db {
		return s.db.Close()
	}
	return errors.Join(s.reads.Close(), s.db.Close()) // the last one to close a SQLite file tidies up behind the others
}

// Ping reports whether the database answers. The error matches catalog.ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error { return translate("ping", s.db.PingContext(ctx)) }

// connect opens the database. PostgreSQL ends transactions of which it has heard nothing for that long; zero is
// its own setting.
func (s *Store) connect(databaseURL string, idle time.Duration) error {
	u, err := url.Parse(databaseURL)
	if err != nil {
		// The parser's error repeats the URL, which may hold a password.
		return errors.New("parse database URL: not a URL")
	}
	switch u.Scheme {
	case "sqlite":
		return s.connectSQLite(u)
	case "postgres", "postgresql":
		return s.connectPostgres(databaseURL, idle)
	}
	return fmt.Errorf("database URL scheme %q is not supported: use sqlite:///path/to/file.db or postgres://user@host/name", u.Scheme)
}

// sqliteReaders is how many transactions read a SQLite file at once.
const sqliteReaders = 4

// connectSQLite opens the file through one connection for all that may write: SQLite has one writer at a time, and who
// queues for the connection never meets a locked database. Others read what was committed when they began,
// whatever is being written, because the file has a write-ahead log (https://www.sqlite.org/wal.html).
func (s *Store) connectSQLite(u *url.URL) error {
	file, err := sqliteFile(u)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make folder of the database: %w", err)
	}
	// SQLite would make the file with the mode of the umask. The files that it makes beside it get
	// the file's mode. Earlier versions left them readable.
	if err := errors.Join(private.File(file), private.Existing(file+"-wal"), private.Existing(file+"-shm"), private.Existing(file+"-journal")); err != nil {
		return fmt.Errorf("keep the database to its owner: %w", err)
	}
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
	}}
	db, err := sql.Open("sqlite", sqliteSource(file, pragmas))
	if err != nil {
		return fmt.Errorf("open sqlite: %w", err)
	}
	db.SetMaxOpenConns(1)
	s.db = bun.NewDB(db, sqlitedialect.New())
	readers, err := sql.Open("sqlite", sqliteSource(file, readPragmas()))
	if err != nil {
		return fmt.Errorf("open sqlite: %w", errors.Join(err, db.Close()))
	}
	readers.SetMaxOpenConns(sqliteReaders)
	readers.SetMaxIdleConns(sqliteReaders)
	s.reads = bun.NewDB(readers, sqlitedialect.New())
	return nil
}

// readPragmas are the settings of a connection that only reads. Its transactions begin without a
// lock, and read the state committed when they began.
func readPragmas() url.Values {
	return url.Values{"_txlock": {"deferred"}, "_pragma": {"busy_timeout(10000)", "query_only(1)"}}
}

// sqliteFile returns the file of a database URL.
func sqliteFile(u *url.URL) (string, error) {
	file := u.Opaque
	if file == "" {
		file = filepath.FromSlash(u.Path)
	}
	if file == "" || u.Host != "" {
		return "", errors.New("database URL must name a file: sqlite:///path/to/file.db")
	}
	return file, nil
}

// sqliteSource returns what the driver opens a file by.
func sqliteSource(file string, pragmas url.Values) string {
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: pragmas.Encode()}
	return dsn.String()
}

// connectTimeout bounds an attempt to connect to PostgreSQL, where the URL names no
// connect_timeout. A network that drops packets would hold an attempt up for minutes, also after it
// works again.
const connectTimeout = 10 * time.Second

// idleInTransaction is how long PostgreSQL waits for the next statement of a transaction, where the URL names no
// idle_in_transaction_session_timeout. Edits of all replicas queue for one row, so a replica that
// is frozen in an edit, or whose machine is gone, stops them all until PostgreSQL ends its
// transaction. An edit is silent while its records are written, which takes seconds. Other replicas
// take over what the frozen one leads after 30 s.
const idleInTransaction = 20 * time.Second

const idleSetting = "idle_in_transaction_session_timeout"

func (s *Store) connectPostgres(databaseURL string, idle time.Duration) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return errors.New("parse database URL: not a PostgreSQL URL")
	}
	// bun puts the arguments into the statement, so no two are alike, and preparing them would only
	// fill caches.
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeout)
	var options []stdlib.OptionOpenDB
	if _, isSet := config.RuntimeParams[idleSetting]; !isSet && idle > 0 {
		// Not by a parameter of the connection: poolers such as PgBouncer refuse unknown ones.
		options = append(options, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("SET %s = %d", idleSetting, idle.Milliseconds()))
			return err
		}))
	}
	db := stdlib.OpenDB(*config, options...)
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	s.db, s.postgres = bun.NewDB(db, pgdialect.New()), true
	s.reads = s.db
	return nil
}
