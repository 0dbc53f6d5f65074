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
// A row is a struct of columns, with a method that returns the object. What SQL does not look into
// is a column of JSON, which encodes itself. Replicas of earlier and later versions read and write the
// JSON, like the columns, at the same time, so names and meanings stay.
//
// # What it does not do
//
// It does not decide what an edit may contain, and keeps nothing in memory: packages catalog and
// fleet do.
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

	"github.com/leatdev/leat/internal/private"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/keyroot"
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
	// tables are those of all kinds, in the order of catalog.Kinds.
	tables []objects
	// journal records changes. Nil: they leave no records.
	journal Journal
}

var (
	_ catalog.Editable    = (*Store)(nil)
	_ catalog.Log         = (*Store)(nil)
	_ catalog.Snapshots   = (*Store)(nil)
	_ catalog.Configs     = (*Store)(nil)
	_ catalog.Definitions = (*Store)(nil)
	_ catalog.Enrolments  = (*Store)(nil)
	_ catalog.Reports     = (*Store)(nil)
	_ catalog.History     = (*Store)(nil)
	_ catalog.People      = (*Store)(nil)
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
	s := &Store{keys: known, tables: newTables()}
	if err := s.connect(databaseURL, idleInTransaction); err != nil {
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(translate("migrate", err), s.Close())
	}
	if err := cmp.Or(openKeys(ctx, s), nameConfigs(ctx, s)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the connections.
func (s *Store) Close() error {
	if s.reads == s.db {
		return s.db.Close()
	}
	return errors.Join(s.reads.Close(), s.db.Close()) // the last one to close a SQLite file tidies up behind the others
}

// table returns the table of a kind, or nil if it is not a kind of objects.
func (s *Store) table(kind catalog.Kind) objects {
	for _, table := range s.tables {
		if table.of() == kind {
			return table
		}
	}
	return nil
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

// readPragmas are those of a connection that only reads. Its transactions begin without a lock, and read what was
// committed when they began.
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
// idle_in_transaction_session_timeout. Edits of all replicas queue for one row, so a replica that is frozen in an
// edit, or whose machine is gone, stops them all until PostgreSQL ends its transaction. An edit says nothing while
// its records are written, which takes seconds. Other replicas take over what the frozen one leads after 30 s.
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
		// Not by a parameter of the connection: poolers such as PgBouncer refuse those that they do not know.
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
