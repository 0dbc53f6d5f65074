// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redistest starts Redis for a test: a real redis-server with [Start], one that fails over
// with [Sentinel], a cluster with [Cluster], miniredis with [Mini].
package redistest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// Server is a redis-server child process that listens on loopback and keeps nothing on disk: a
// restart empties it. Its address stays the same over restarts. It ends with the test. Methods that
// take t fail that test.
type Server struct {
	addr     string
	dir      string
	user     string     // empty: the default user
	password string     // password of user; empty: no password is required
	args     []string   // of redis-server, before the usual ones
	env      []string   // environment of the start script; nil: redis-server is started directly
	admin    string     // password of adminUser; empty: user has all permissions
	ca       string     // file with the certificate that TLS clients trust; empty: no TLS
	t        testing.TB // of the test with which the server ends

	mu      sync.Mutex
	process *program.Program // nil while stopped
}

// Start starts a redis-server on a port that the kernel chose and waits until it answers. If the
// program is missing the test fails with advice on how to install it.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, "")
}

// start starts a server with that password, and arguments besides the usual ones.
func start(t testing.TB, password string, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not installed: run `make tools` or `apt-get install redis-server`")
	}
	s := &Server{t: t, addr: loopback.Addr(t), dir: t.TempDir(), password: password, args: args}
	s.Restart(t)
	return s
}

// StartAs starts a server as deploy/ ships it, with its start script and its users, and waits until
// it answers. URL and Client are for the given user: gitcache or tunnel.
func StartAs(t testing.TB, user string) *Server {
	t.Helper()
	return startAs(t, user, false)
}

// StartTLSAs is StartAs for a server that accepts only TLS. Its certificate is for 127.0.0.1, and
// signed by CAFile.
func StartTLSAs(t testing.TB, user string) *Server {
	t.Helper()
	return startAs(t, user, true)
}

func startAs(t testing.TB, user string, tls bool) *Server {
	t.Helper()
	deploy := filepath.Join(checkout(t), "deploy", "redis")
	users, err := os.ReadFile(filepath.Join(deploy, "users.acl"))
	must(t, err)
	s := &Server{t: t, addr: loopback.Addr(t), dir: t.TempDir(), user: user, password: rand.Text() + rand.Text(), admin: rand.Text()}
	host, port, err := net.SplitHostPort(s.addr)
	must(t, err)
	conf := t.TempDir()
	users = fmt.Appendf(users, "user %s on >%s ~* &* +@all\n", adminUser, s.admin)
	must(t, os.WriteFile(filepath.Join(conf, "users.acl"), users, 0o600))
	s.env = []string{
		"REDIS_CONF=" + conf, "REDIS_RUN=" + s.dir, "REDIS_PORT=" + port, "REDIS_TLS=" + s.dir,
		"REDIS_GITCACHE_PASSWORD=" + rand.Text() + rand.Text(), "REDIS_TUNNEL_PASSWORD=" + rand.Text() + rand.Text(),
		"REDIS_" + strings.ToUpper(user) + "_PASSWORD=" + s.password, // overrides the random one above
	}
	s.args = []string{filepath.Join(deploy, "start.sh"), "--bind", host, "--loglevel", "notice"}
	if tls {
		selfsigned.New(t).Write(t, s.dir)
		s.ca = filepath.Join(s.dir, "ca.crt")
	}
	s.Restart(t)
	return s
}

// checkout returns the root of the checkout in which the test runs.
func checkout(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	must(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test does not run inside a checkout of Leat, whose deploy/ it needs")
		}
		dir = filepath.Dir(dir)
	}
}

// adminUser is a user that StartAs adds to the users of deploy/.
const adminUser = "redistest"

// Admin is Client for a user with all permissions, which the users of StartAs do not have.
func (s *Server) Admin(t testing.TB) *redis.Client {
	t.Helper()
	if s.admin == "" {
		return s.Client(t)
	}
	return s.client(t, adminUser, s.admin)
}

// CAFile returns the file with the certificate that clients of StartTLSAs must trust.
func (s *Server) CAFile() string { return s.ca }

// StartReplica starts a server that replicates another, and waits until it has all of its data.
// Unlike other servers it has a snapshot of this moment on disk: a restart restores it, as a
// restart from a backup would.
func StartReplica(t testing.TB, of *Server) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(of.addr)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, of.password, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	s.awaitInfo(t, "replication", "master_link_status:up", 1)
	return s
}

// Promote makes a replica a primary with its current data, as a fail-over does. Writes that the old
// primary acknowledges from then on are lost.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if err := s.Client(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatalf("promote redis-server: %v", err)
	}
	s.args = nil // they would make it a replica again at a restart
}

// URL returns the address in the form that redis.ParseURL and LEAT_REDIS_URL accept.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.addr, Path: "/0"}
	if s.user != "" {
		u.User = url.UserPassword(s.user, s.password)
	}
	if s.ca != "" {
		u.Scheme = "rediss"
	}
	return u.String()
}

// Addr returns host:port.
func (s *Server) Addr() string {
	return s.addr
}

// Client returns a new client, closed when t ends. It does not retry automatically, so that a test
// sees each failure.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return s.client(t, s.user, s.password)
}

func (s *Server) client(t testing.TB, user, password string) *redis.Client {
	t.Helper()
	o := s.options(t)
	o.Username, o.Password = user, password
	o.ContextTimeoutEnabled = true // otherwise deadlines have no effect while the server is paused
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// options returns the options of clients that do not retry automatically.
func (s *Server) options(t testing.TB) *redis.Options {
	t.Helper()
	o := &redis.Options{Addr: s.addr, Username: s.user, Password: s.password, MaxRetries: -1, DialerRetries: 1}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		must(t, err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	return o
}

// Stop shuts the server down cleanly. Stopping a stopped server does nothing.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.end(syscall.SIGTERM)
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.end(syscall.SIGKILL)
}

// Restart starts the server again, empty, on the same address; a running one is killed first.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.end(syscall.SIGKILL)
	started := program.Start(s.t, s.command(t))
	s.mu.Lock()
	s.process = started
	s.mu.Unlock()
	o := s.options(t)
	o.DialTimeout, o.ContextTimeoutEnabled = time.Second, true
	client := redis.NewClient(o)
	defer client.Close()
	started.Await(t, func() bool {
		// Its process id proves that the server itself answers, and not another program on its port.
		info, err := client.InfoMap(context.WithoutCancel(t.Context()), "server").Result()
		return err == nil && info["Server"]["process_id"] == strconv.Itoa(started.PID())
	})
}

// Pause freezes the server with SIGSTOP: connections stay open and nothing answers.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		t.Fatalf("send %v to redis-server: it is stopped", signal)
	}
	if err := s.process.Signal(signal); err != nil {
		t.Fatalf("send %v to redis-server: %v", signal, err)
	}
}

// command returns what runs the server.
func (s *Server) command(t testing.TB) *exec.Cmd {
	t.Helper()
	if s.env != nil {
		command := exec.Command("/bin/sh", s.args...)
		command.Env = append(os.Environ(), s.env...)
		return command
	}
	host, port, err := net.SplitHostPort(s.addr)
	must(t, err)
	args := append(slices.Clone(s.args), "--bind", host, "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--logfile", "", "--loglevel", "notice")
	if s.password != "" {
		args = append(args, "--requirepass", s.password)
	}
	return exec.Command("redis-server", args...)
}

// end sends the signal and blocks until the process is gone.
func (s *Server) end(signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.End(signal)
		s.process = nil
	}
}
