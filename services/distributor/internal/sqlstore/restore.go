// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/keys/backup"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ErrNotEmpty is in the chain of the error when a backup is to be restored into a database that
// holds a hub already.
var ErrNotEmpty = errors.New("the database holds a hub already")

const (
	// revisionLeap is added to the revision, so that no revision is used twice: the hub that was lost
	// may have made any number of edits after the backup.
	revisionLeap = 1 << 32
	// recordLeap is added to the number of the last audit record, because records of after the backup
	// are in the outputs of the audit log.
	recordLeap = 1 << 24
	// batchRows and batchBytes bound the rows that one statement writes.
	batchRows, batchBytes = 200, 1 << 20
)

// fresh are the tables that hold rows in the database of an unused hub.
var fresh = []string{"revision", "audit_sequence", "audit_reach", "sealing_keys", "signing_keys", "notification_lead", "rollout_lead", "fleet_source_lead", "image_policy_lead"}

// RestoreOptions bound the effects of a restore.
type RestoreOptions struct {
	// Replace deletes what the database holds. Without it the database must be empty, or an unused
	// hub's.
	Replace bool
	// KeepTokens restores the API tokens of people. Without it they end: one that was revoked after
	// the backup would be valid again.
	KeepTokens bool
}

// Restored is the effect of a restore.
type Restored struct {
	// Rows are the rows that were written.
	Rows int64
	// At is when, by which the held removals are named.
	At time.Time
	// Clusters is the number of clusters whose removals are held until a person releases them.
	Clusters int64
	// EndedSessions and EndedTokens are the sessions, and the API tokens, that were in the backup and
	// are not restored.
	EndedSessions, EndedTokens int64
	// Tokens are the API tokens that were restored.
	Tokens []catalog.Token
}

// Verify reads a backup to its end, and checks that this release and these keys can restore it. It
// returns the number of rows. It writes nothing. The errors match the errors of package backup or
// [ErrSchema], or name the missing key.
func Verify(ctx context.Context, from *backup.Reader, keys Keys) (rows int64, err error) {
	known, err := newKeyStore(keys)
	if err != nil {
		return 0, err
	}
	shape, err := readSchema(ctx)
	if err != nil {
		return 0, err
	}
	err = shape.read(from, func(table tableShape, row backup.Row) error {
		rows++
		if table.name != "sealing_keys" {
			return nil
		}
		_, err := known.unwrap(ctx, keyRowOf(table, row))
		return err
	})
	return rows, err
}

// keyRowOf returns the row of a sealing key.
func keyRowOf(table tableShape, row backup.Row) *sealingKeyRow {
	key := new(sealingKeyRow)
	for i, column := range table.columns {
		switch column.name {
		case "id":
			key.ID, _ = row[i].(string)
		case "root":
			key.Root, _ = row[i].(string)
		case "wrapped":
			key.Wrapped, _ = row[i].([]byte)
		}
	}
	return key
}

// read calls fn for each row of a backup, after it has checked the row against the schema.
func (s *schema) read(from *backup.Reader, fn func(table tableShape, row backup.Row) error) error {
	if err := s.compare(from.Header.Schema); err != nil {
		return fmt.Errorf("backup of release %.80q: %w", from.Header.Version, err)
	}
	var current tableShape
	seen := map[string]bool{}
	for {
		begun, row, err := from.Next()
		switch {
		case err != nil:
			return err
		case begun != nil:
			found, ok := s.table(begun.Name)
			if !ok || seen[begun.Name] || !slices.Equal(found.names(), begun.Columns) {
				return fmt.Errorf("%w: table %.80q is unknown, has other columns, or is there twice", backup.ErrDamaged, begun.Name)
			}
			current, seen[begun.Name] = found, true
		case row == nil:
			if len(seen) != len(s.tables) {
				return fmt.Errorf("%w: it has %d of %d tables", backup.ErrDamaged, len(seen), len(s.tables))
			}
			return nil
		default:
			if err := current.check(row); err != nil {
				return err
			}
			if err := fn(current, row); err != nil {
				return err
			}
		}
	}
}

// check checks a row against the columns.
func (t tableShape) check(row backup.Row) error {
	if len(row) != len(t.columns) || len(row) == 0 {
		return fmt.Errorf("%w: a row of table %q has %d values, want %d", backup.ErrDamaged, t.name, len(row), len(t.columns))
	}
	for i, column := range t.columns {
		if _, err := column.value(row[i]); err != nil {
			return fmt.Errorf("%w: table %q: %w", backup.ErrDamaged, t.name, err)
		}
	}
	return nil
}

// Target is a database that a backup is restored into.
type Target struct {
	store  *Store
	schema *schema
}

// OpenTarget connects to a database and brings its schema up to date. It makes a SQLite file that
// does not exist. The error matches catalog.ErrUnavailable if the database does not answer.
func OpenTarget(ctx context.Context, databaseURL string, keys Keys) (*Target, error) {
	known, err := newKeyStore(keys)
	if err != nil {
		return nil, err
	}
	shape, err := readSchema(ctx)
	if err != nil {
		return nil, err
	}
	opened, err := connect(databaseURL, 0)
	if err != nil {
		return nil, err
	}
	s := &Store{connections: opened, keys: known}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(translate("migrate", err), s.Close())
	}
	return &Target{store: s, schema: shape}, nil
}

// Close ends the connections.
func (t *Target) Close() error { return t.store.Close() }

// Records returns the records of changes in the database.
func (t *Target) Records() Records { return RecordsOf(t.store) }

// Restore writes a backup into the database, in one transaction: with an error, the database is as
// before. The caller has verified the backup, and no hub uses the database. The journal records the
// restore. The error matches [ErrNotEmpty] if the database holds a hub and the options do not allow
// replacing it.
//
// Afterwards no session and no join token is left, API tokens only if the options keep them, and
// removals are held in all clusters.
func (t *Target) Restore(ctx context.Context, from *backup.Reader, journal Journal, options RestoreOptions) (*Restored, error) {
	done := &Restored{At: time.Now().UTC().Truncate(time.Microsecond)}
	var own error
	var written []*audit.Record
	err := t.store.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, sqlTx bun.Tx) error {
		r := restoring{sql: sqlTx, schema: t.schema, done: done}
		if own = r.run(ctx, from, options); own != nil {
			return own
		}
		change := catalog.Change{Verb: catalog.VerbRestore, Kind: catalog.RecordHub}
		written, own = recordChanges(ctx, journal, sqlTx, []catalog.Change{change})
		return own
	})
	if err == nil {
		return done, nil
	}
	if own != nil {
		return nil, own
	}
	if len(written) > 0 {
		journal.Withdraw(written)
	}
	return nil, translate("restore backup", err)
}

// restoring is a restore in its transaction.
type restoring struct {
	sql    bun.Tx
	schema *schema
	done   *Restored
}

func (r *restoring) run(ctx context.Context, from *backup.Reader, options RestoreOptions) error {
	// The lock of edits: a hub that uses the database after all waits, and then notices.
	if _, err := r.sql.ExecContext(ctx, "UPDATE revision SET value = value WHERE id = 1"); err != nil {
		return translate("lock database", err)
	}
	if err := r.empty(ctx, options.Replace); err != nil {
		return err
	}
	if err := r.load(ctx, from); err != nil {
		return err
	}
	if err := r.endCredentials(ctx, options.KeepTokens); err != nil {
		return translate("end credentials", err)
	}
	return translate("mark restore", r.mark(ctx))
}

// empty deletes all rows, and refuses to delete the rows of a hub unless it may replace it.
func (r *restoring) empty(ctx context.Context, mayReplace bool) error {
	for _, table := range slices.Backward(r.schema.tables) {
		if !mayReplace && !slices.Contains(fresh, table.name) {
			isUsed, err := r.sql.NewSelect().Table(table.name).Limit(1).Exists(ctx)
			if err != nil {
				return translate("look into database", err)
			}
			if isUsed {
				return fmt.Errorf("%w: table %s is not empty; restore into an empty database, or give --restore-replace to delete what is there", ErrNotEmpty, table.name)
			}
		}
		if _, err := r.sql.ExecContext(ctx, `DELETE FROM "`+table.name+`"`); err != nil {
			return translate("empty table "+table.name, err)
		}
	}
	return nil
}

// load writes the rows of the backup.
func (r *restoring) load(ctx context.Context, from *backup.Reader) error {
	batch := rowBatch{sql: r.sql}
	err := r.schema.read(from, func(table tableShape, row backup.Row) error {
		r.done.Rows++
		return batch.add(ctx, table, row)
	})
	if err != nil {
		return err
	}
	return batch.write(ctx)
}

// rowBatch collects rows of one table for one statement.
type rowBatch struct {
	sql    bun.Tx
	table  tableShape
	values []any
	rows   int
	bytes  int
}

func (b *rowBatch) add(ctx context.Context, table tableShape, row backup.Row) error {
	size := 0
	for _, value := range row {
		switch v := value.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	if b.table.name != table.name || b.rows >= batchRows || b.bytes+size > batchBytes {
		if err := b.write(ctx); err != nil {
			return err
		}
	}
	b.table, b.rows, b.bytes = table, b.rows+1, b.bytes+size
	b.values = append(b.values, row...)
	return nil
}

// write writes the rows.
func (b *rowBatch) write(ctx context.Context) error {
	if b.rows == 0 {
		return nil
	}
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(b.table.columns)), ", ") + ")"
	rows := strings.TrimSuffix(strings.Repeat(row+", ", b.rows), ", ")
	_, err := b.sql.NewRaw(`INSERT INTO "`+b.table.name+`" (`+b.table.quoted()+`) VALUES `+rows, b.values...).Exec(ctx)
	b.values, b.rows, b.bytes = b.values[:0], 0, 0
	return translate("write table "+b.table.name, err)
}

// endCredentials removes what the lost hub may have ended after the backup: sessions, join tokens and
// bootstrap tokens, and API tokens unless they are kept.
func (r *restoring) endCredentials(ctx context.Context, keepTokens bool) (err error) {
	remove := func(table string) (n int64) {
		if err != nil {
			return 0
		}
		var result sql.Result
		if result, err = r.sql.ExecContext(ctx, "DELETE FROM "+table); err == nil {
			n, err = result.RowsAffected()
		}
		return n
	}
	remove("session_tokens")
	r.done.EndedSessions = remove("sessions")
	remove("join_tokens")
	remove("bootstrap_clusters")
	remove("bootstrap_tokens") // one that was revoked or used would count again
	if !keepTokens {
		r.done.EndedTokens = remove("api_tokens")
	}
	if err != nil {
		return err
	}
	return list(ctx, withUser(r.sql.NewSelect()).OrderExpr("user_name, label"), &r.done.Tokens, (*tokenRow).token)
}

// mark holds removals in all clusters, and tells this database apart from the one of the backup.
func (r *restoring) mark(ctx context.Context) error {
	_, err := r.sql.NewRaw("UPDATE revision SET value = value + ?, incarnation = ? WHERE id = 1", int64(revisionLeap), rand.Text()).Exec(ctx)
	if err != nil {
		return err
	}
	if _, err := r.sql.NewRaw("UPDATE audit_sequence SET value = value + ? WHERE id = 1", int64(recordLeap)).Exec(ctx); err != nil {
		return err
	}
	result, err := r.sql.NewRaw("UPDATE clusters SET removals_held_at = ?, connected_until = 0", micros(r.done.At)).Exec(ctx)
	if err == nil {
		r.done.Clusters, err = result.RowsAffected()
	}
	return err
}
