// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"database/sql"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// startWaiting starts a hub whose database cannot be used yet, and expects it to live without being
// ready. The returned function expects the same process to become ready.
func startWaiting(t *testing.T, change func(*distributor.Config)) (wantReady func()) {
	t.Helper()
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := newReplica(t, startFakeGit(t), func(c *distributor.Config) { c.Serve.InternalListener = internal }, change)
	h.start(t)
	probe := func(path string) (int, string) {
		res, err := http.Get("http://" + internal.Addr().String() + path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return res.StatusCode, string(body)
	}
	if code, body := probe("/healthz"); code != http.StatusOK {
		t.Errorf("got %d %q of /healthz, want 200: the process lives", code, body)
	}
	if code, body := probe("/readyz"); code != http.StatusServiceUnavailable || body != "database: failed\n" {
		t.Errorf("got %d %q of /readyz, want 503 and what is missing", code, body)
	}
	return func() {
		t.Helper()
		await.True(t, "the hub to be ready", func() bool {
			select {
			case err := <-h.done:
				h.done <- err
				t.Fatalf("the hub ended with %v, want it to wait", err)
			default:
			}
			code, _ := probe("/readyz")
			return code == http.StatusOK
		})
		if _, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), &fleetv1.ListRequest{}); err != nil {
			t.Errorf("got %v, want a hub that answers", err)
		}
	}
}

// TestDatabaseComesLate starts a hub before its PostgreSQL.
func TestDatabaseComesLate(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	url := database.Database(t)
	database.Kill()
	wantReady := startWaiting(t, func(c *distributor.Config) { c.DatabaseURL = url })
	database.Start(t)
	wantReady()
}

// TestProbesDuringMigrations starts a hub while another replica migrates the database, which may
// take longer than probes are patient.
func TestProbesDuringMigrations(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	other, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	migrating, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrating.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", 0x6c656174); err != nil { // as sqlstore does
		t.Fatal(err)
	}
	wantReady := startWaiting(t, func(c *distributor.Config) { c.DatabaseURL = url })
	await.True(t, "the hub to wait for the migration", func() bool {
		var waiting int
		err := other.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&waiting)
		return err == nil && waiting == 1
	})
	if _, err := migrating.ExecContext(t.Context(), "SELECT pg_advisory_unlock($1)", 0x6c656174); err != nil {
		t.Fatal(err)
	}
	wantReady()
}

// TestLockedDatabaseIsAwaited starts a hub while another process, such as a backup, holds the file
// of SQLite.
func TestLockedDatabaseIsAwaited(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leat.db")
	content, err := emptyDatabase()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	holder, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	wantReady := startWaiting(t, func(c *distributor.Config) { c.DatabaseURL = "sqlite://" + file })
	if _, err := holder.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	wantReady()
}
