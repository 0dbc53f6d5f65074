// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/childproc"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

const (
	// postgresBinaries is Debian's folder of PostgreSQL 15. The search path takes precedence.
	postgresBinaries = "/usr/lib/postgresql/15/bin"
	// nobody is the user of the server if the test runs as root, which PostgreSQL refuses.
	nobody = 65534
)

// startPostgres runs a PostgreSQL until the test ends, and returns the URL of its only database. It
// may not answer yet: replicas wait for it.
func startPostgres(t *testing.T) string {
	t.Helper()
	// Not t.TempDir: its parents are closed to other users, and the path may be too long for a
	// socket.
	dir := filepath.Join(os.TempDir(), "leat-fault-postgres-"+rand.Text())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	data, addr := filepath.Join(dir, "data"), loopback.Addr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	initdb := postgresCommand(t, "initdb", "-D", data, "-U", "leat", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := postgresCommand(t, "postgres", "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", port, "-c", "fsync=off")
	ended, err := childproc.Start(server)
	if err != nil {
		t.Fatalf("start postgres: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		<-ended
	})
	return "postgres://leat@" + addr + "/postgres?sslmode=disable"
}

func postgresCommand(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = filepath.Join(postgresBinaries, program)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("this test needs PostgreSQL 15: %s is neither in PATH nor in %s; install it with: apt-get install postgresql-15", program, postgresBinaries)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	}
	return cmd
}
