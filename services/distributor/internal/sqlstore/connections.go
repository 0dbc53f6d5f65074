// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

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

	"github.com/leatdev/leat/internal/runtime/private"
)

// maxConns bounds the connections to PostgreSQL. Reads are answered from memory, so few are needed.
const maxConns = 8

// connections are the connections to one database. They are safe for concurrent use.
type connections struct {
	db *bun.DB
	// reads is where [connections.read] reads: db, or connections of their own, which do not wait for an edit.
	reads    *bun.DB
	postgres bool
}

// read runs fn on one state of the database.
func (c connections) read(ctx context.Context, verb string, fn func(ctx context.Context, tx bun.Tx) error) error {
	options := &sql.TxOptions{}
	if c.postgres {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return translate(verb, c.reads.RunInTx(ctx, options, fn))
}

// Close ends the connections.
func (c connections) Close() error {
	if c.reads == c.db {
		return c.db.Close()
	}
	return errors.Join(c.reads.Close(), c.db.Close()) // the last one to close a SQLite file tidies up behind the others
}

// Ping reports whether the database answers. The error matches catalog.ErrUnavailable.
func (c connections) Ping(ctx context.Context) error { return translate("ping", c.db.PingContext(ctx)) }

// connect opens the database. PostgreSQL ends transactions of which it has heard nothing for that long; zero is
// its own setting.
func connect(databaseURL string, idle time.Duration) (connections, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		// The parser's error repeats the URL, which may hold a password.
		return connections{}, errors.New("parse database URL: not a URL")
	}
	switch u.Scheme {
	case "sqlite":
		return connectSQLite(u)
	case "postgres", "postgresql":
		return connectPostgres(databaseURL, idle)
	}
	return connections{}, fmt.Errorf("database URL scheme %q is not supported: use sqlite:///path/to/file.db or postgres://user@host/name", u.Scheme)
}

// sqliteReaders is how many transactions read a SQLite file at once.
const sqliteReaders = 4

// connectSQLite opens the file through one connection for all that may write: SQLite has one writer at a time, and who
// queues for the connection never meets a locked database. Others read what was committed when they began,
// whatever is being written, because the file has a write-ahead log (https://www.sqlite.org/wal.html).
func connectSQLite(u *url.URL) (connections, error) {
	file, err := sqliteFile(u)
	if err != nil {
		return connections{}, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return connections{}, fmt.Errorf("make folder of the database: %w", err)
	}
	// SQLite would make the file with the mode of the umask. The files that it makes beside it get
	// the file's mode. Earlier versions left them readable.
	if err := errors.Join(private.File(file), private.Existing(file+"-wal"), private.Existing(file+"-shm"), private.Existing(file+"-journal")); err != nil {
		return connections{}, fmt.Errorf("keep the database to its owner: %w", err)
	}
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
	}}
	db, err := sql.Open("sqlite", sqliteSource(file, pragmas))
	if err != nil {
		return connections{}, fmt.Errorf("open sqlite: %w", err)
	}
	db.SetMaxOpenConns(1)
	readers, err := sql.Open("sqlite", sqliteSource(file, readPragmas()))
	if err != nil {
		return connections{}, fmt.Errorf("open sqlite: %w", errors.Join(err, db.Close()))
	}
	readers.SetMaxOpenConns(sqliteReaders)
	readers.SetMaxIdleConns(sqliteReaders)
	return connections{db: bun.NewDB(db, sqlitedialect.New()), reads: bun.NewDB(readers, sqlitedialect.New())}, nil
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

func connectPostgres(databaseURL string, idle time.Duration) (connections, error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return connections{}, errors.New("parse database URL: not a PostgreSQL URL")
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
	pool := stdlib.OpenDB(*config, options...)
	pool.SetMaxOpenConns(maxConns)
	pool.SetMaxIdleConns(maxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	db := bun.NewDB(pool, pgdialect.New())
	return connections{db: db, reads: db, postgres: true}, nil
}
