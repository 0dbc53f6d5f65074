// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"embed"
	"fmt"

	"github.com/uptrace/bun/migrate"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the key of PostgreSQL's advisory lock; "leat" in ASCII.
const migrationLock = 0x6c656174

// dialect holds the words of the migrations that differ between databases.
type dialect struct {
	// Bytes is the type of a column of bytes.
	Bytes string
	// Objects are objectTables.
	Objects []string
	// isPostgres chooses the functions for JSON.
	isPostgres bool
}

// objectTables are the tables whose rows have metaColumns, as of the migration of managers. Migrations of
// later tables bring all of the columns themselves.
var objectTables = []string{
	"access_bindings", "clusters", "config_backends", "config_sets", "fleet_sources", "global_services", "identity_providers", "notifiers",
	"projects", "repositories", "roles", "rollout_policies", "services", "trust_rules", "users",
}

// Annotation returns the SQL for the value of an annotation, without quotes.
func (d dialect) Annotation(key string) string {
	if d.isPostgres {
		return fmt.Sprintf("(annotations::jsonb ->> '%s')", key)
	}
	return fmt.Sprintf(`json_extract(annotations, '$."%s"')`, key)
}

// WithoutAnnotation returns the SQL for all annotations but one.
func (d dialect) WithoutAnnotation(key string) string {
	if d.isPostgres {
		return fmt.Sprintf("(annotations::jsonb - '%s')::text", key)
	}
	return fmt.Sprintf(`json_remove(annotations, '$."%s"')`, key)
}

// migrate applies the migrations that are missing, each in its own transaction, and makes the tables of new plain kinds.
func (c connections) migrate(ctx context.Context) error {
	unlock, err := lockMigrations(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	migrations := migrate.NewMigrations()
	if err := migrations.Discover(migrationFiles); err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	migrations.Add(membersMigration())
	words := dialect{Bytes: "BLOB", Objects: objectTables, isPostgres: c.postgres}
	if c.postgres {
		words.Bytes = "BYTEA"
	}
	migrator := migrate.NewMigrator(c.db, migrations, migrate.WithTemplateData(words), migrate.WithMarkAppliedOnSuccess(true))
	if err := migrator.Init(ctx); err != nil {
		return fmt.Errorf("make migration tables: %w", err)
	}
	if _, err := migrator.Migrate(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", err)
	}
	return makePlainTables(ctx, c.db)
}

// lockMigrations keeps other replicas from migrating at the same time. The lock belongs to a
// connection, so it ends with a replica that dies. SQLite needs none: its file belongs to one
// process.
func lockMigrations(ctx context.Context, c connections) (unlock func(), err error) {
	if !c.postgres {
		return func() {}, nil
	}
	conn, err := c.db.DB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return func() {
		// Closing an unlocked connection gives it back to the pool; should unlocking fail, the
		// connection is dead, and the lock went with it.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrationLock)
		_ = conn.Close()
	}, nil
}
