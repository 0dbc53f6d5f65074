// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redistest starts Redis for a test: a real redis-server with [Start], one that fails over with [Sentinel], a
// cluster with [Cluster], miniredis with [Mini].
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/childproc"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// startTimeout is generous: a loaded machine starts redis-server slowly, and nobody waits for it when it is quick.
const startTimeout = 20 * time.Second

// Server is a redis-server child process that listens on loopback and keeps nothing on disk: a restart empties it. Its
// address stays the same over restarts. It ends with the test. Methods that take t fail that test.
type Server struct {
	addr     string
	dir      string
	password string   // of the default user; empty: none is asked for
	args     []string // of redis-server, before the usual ones
	out      output

	mu      sync.Mutex
	process *exec.Cmd // nil while stopped
	exited  <-chan struct{}
}

// Start starts a redis-server on a port the kernel chose and waits until it answers. Where the program is missing the
// test fails and says how to install it.
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
	s := &Server{addr: loopback.Addr(t), dir: t.TempDir(), password: password, args: args}
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	s.Restart(t)
	return s
}

// StartReplica starts a server that replicates another, and waits until it has all of its data. Unlike other servers it has a
// snapshot on disk, of this moment: a restart brings that back, as one from a backup would.
func StartReplica(t testing.TB, of *Server) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(of.addr)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, of.password, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	await(t, "the replica is in step", func(ctx context.Context) bool {
		info, err := s.Client(t).Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	return s
}

// Promote makes a replica a primary with the data it has by now, as a fail-over does. What the old primary acknowledges from
// then on is lost.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if err := s.Client(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatalf("promote redis-server: %v", err)
	}
	s.args = nil // they made it a replica, and would again at a restart
}

// URL returns the address in the form that redis.ParseURL and LEAT_REDIS_URL take.
func (s *Server) URL() string {
	return "redis://" + s.addr + "/0"
}

// Addr returns host:port.
func (s *Server) Addr() string {
	return s.addr
}

// Client returns a new client, closed when t ends. It does not retry by itself, so that a test sees each failure.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return newClient(t, s.addr, s.password)
}

// Stop ends the server in good order. Stopping a stopped server does nothing.
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
	if err := s.begin(); err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	if err := s.awaitReady(); err != nil {
		t.Fatalf("start redis-server on %s: %v\n%s", s.addr, err, s.out.String())
	}
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
	if err := s.process.Process.Signal(signal); err != nil {
		t.Fatalf("send %v to redis-server: %v", signal, err)
	}
}

func (s *Server) begin() error {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	// The context of a test ends before its cleanups; the process is ended by end.
	args := append(slices.Clone(s.args), "--bind", host, "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--logfile", "", "--loglevel", "notice")
	if s.password != "" {
		args = append(args, "--requirepass", s.password)
	}
	process := exec.CommandContext(context.Background(), "redis-server", args...)
	process.Stdout, process.Stderr = &s.out, &s.out
	exited, err := childproc.Start(process)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.exited = process, exited
	return nil
}

// end sends the signal and waits until the process is gone. A frozen process takes no SIGTERM, so it is thawed.
func (s *Server) end(signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(signal)
	_ = s.process.Process.Signal(syscall.SIGCONT)
	<-s.exited
	s.process = nil
}

// awaitReady asks until the server answers with its own process id, and not another program on the same port.
func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client := redis.NewClient(&redis.Options{
		Addr: s.addr, Password: s.password,
		MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second, ContextTimeoutEnabled: true,
	})
	defer client.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := client.InfoMap(ctx, "server").Result()
		if err == nil && info["Server"]["process_id"] == strconv.Itoa(s.process.Process.Pid) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within %s: %w", startTimeout, err)
		case <-s.exited:
			return fmt.Errorf("it ended: %s", s.process.ProcessState)
		case <-tick.C:
		}
	}
}

func newClient(t testing.TB, addr, password string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, Password: password, MaxRetries: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true, // or a deadline would mean nothing while the server is paused
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// output collects what the process prints, for the message of a failed start.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
