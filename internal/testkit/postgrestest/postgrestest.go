// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package postgrestest starts a real PostgreSQL for tests.
package postgrestest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

// binaries is where Debian keeps PostgreSQL 15; the search path comes first.
const binaries = "/usr/lib/postgresql/15/bin"

// nobody runs the server where the test is root, which PostgreSQL refuses to be.
const nobody = 65534

// Server is a running PostgreSQL. It is safe for concurrent use, except for Kill and Start.
type Server struct {
	url     string
	dir     string
	path    string // of the program
	port    string
	running *program.Program // nil while killed
	t       testing.TB       // of the test with which the server ends

	mu   sync.Mutex
	next int
}

// New starts a server on a port of the kernel's choice; it ends with the test. A missing PostgreSQL
// fails the test.
func New(t testing.TB) *Server {
	t.Helper()
	return start(t, "initdb", "-U", "leat", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8")
}

// start makes the data of a server with a program of PostgreSQL, and starts the server.
func start(t testing.TB, program string, args ...string) *Server {
	t.Helper()
	// Not t.TempDir: its parents are closed to other users, and the path may be too long for a
	// socket.
	dir := filepath.Join(top(t), "leat-postgres-"+rand.Text())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{t: t, dir: dir, path: find(t, "postgres"), port: freePort(t)}
	s.url = "postgres://leat@" + s.Addr() + "/"
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	cmd := unprivileged(exec.CommandContext(t.Context(), find(t, program), append([]string{"-D", s.data()}, args...)...))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	s.Start(t)
	t.Cleanup(s.Kill)
	return s
}

// Standby starts a server at another address that has what this one has. From then on this one
// acknowledges only what the standby has written, too.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	standby := start(t, "pg_basebackup", "-h", "127.0.0.1", "-p", s.port, "-U", "leat", "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	s.run(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	s.run(t, "SELECT pg_reload_conf()")
	return standby
}

// Promote makes a standby take over, and returns when it takes changes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.run(t, "SELECT pg_promote()")
}

func (s *Server) run(t testing.TB, statement string) {
	t.Helper()
	psql := exec.CommandContext(context.Background(), find(t, "psql"), "--dbname="+s.url+"postgres", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--command="+statement)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return "127.0.0.1:" + s.port }

// memory is a folder in memory, on Linux.
const memory = "/dev/shm"

// top returns the folder for the data: of memory, if that has much room. Tests make hundreds of databases, and waited for
// the disk most of their time. A benchmark measures with a disk.
func top(t testing.TB) string {
	const room = 6 << 30
	var stat syscall.Statfs_t
	if _, isBenchmark := t.(*testing.B); isBenchmark || syscall.Statfs(memory, &stat) != nil || stat.Bavail*uint64(stat.Bsize) < room {
		return os.TempDir()
	}
	return memory
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Start starts the server again after Kill, with its data and on its port, and waits until it
// answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.running = program.Start(s.t, unprivileged(exec.CommandContext(context.Background(), s.path, "-D", s.data(), "-k", s.dir, "-h", "127.0.0.1", "-p", s.port,
		// Nothing is synced, but written before it is acknowledged: it outlives Kill, though not
		// the machine.
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200")))
	ready := find(t, "pg_isready")
	s.running.Await(t, func() bool {
		return exec.CommandContext(context.Background(), ready, "-q", "-h", "127.0.0.1", "-p", s.port).Run() == nil // the test's own context may have ended
	})
}

// Kill ends the server at once, as a crash of the machine would. Killing it again does nothing.
func (s *Server) Kill() {
	if s.running != nil {
		s.running.End(syscall.SIGQUIT)
		s.running = nil
	}
}

func find(t testing.TB, name string) string {
	t.Helper()
	if found, err := exec.LookPath(name); err == nil {
		return found
	}
	found := filepath.Join(binaries, name)
	if _, err := os.Stat(found); err != nil {
		t.Fatalf("this test needs PostgreSQL 15: %s is neither in PATH nor in %s; install it with: apt-get install postgresql-15", name, binaries)
	}
	return found
}

// unprivileged makes a command run as nobody where the test is root.
func unprivileged(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	}
	return cmd
}

func freePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(loopback.Addr(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.create(t)
}

// Copy makes a database with the content of another one of the server, to which nothing may be
// connected, and returns its URL.
func (s *Server) Copy(t testing.TB, url string) string {
	t.Helper()
	return s.create(t, "-T", strings.TrimPrefix(url, s.url))
}

// Size returns how many bytes the tables and indexes of a database take on disk, without the server's log of writes.
func (s *Server) Size(t testing.TB, url string) int64 {
	t.Helper()
	psql := exec.CommandContext(t.Context(), find(t, "psql"), "--dbname="+url, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--command=SELECT pg_database_size(current_database())")
	out, err := psql.Output()
	if err != nil {
		t.Fatalf("size of %s: %v", url, err)
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func (s *Server) create(t testing.TB, options ...string) string {
	t.Helper()
	s.mu.Lock()
	s.next++
	name := fmt.Sprintf("test%d", s.next)
	s.mu.Unlock()
	args := append([]string{"-h", "127.0.0.1", "-p", s.port, "-U", "leat", "--maintenance-db=postgres"}, options...)
	createdb := exec.CommandContext(context.Background(), find(t, "createdb"), append(args, name)...)
	if out, err := createdb.CombinedOutput(); err != nil {
		t.Fatalf("create database: %v\n%s", err, out)
	}
	return s.url + name
}
