// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package nginxtest runs a real nginx for a test or a benchmark, on a loopback port and in a folder
// of its own.
package nginxtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/childproc"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// patience bounds how long nginx may take to listen.
const patience = 30 * time.Second

// main is the part of the configuration that tests do not set: nginx writes nothing outside of the
// folder, and reads nothing of the machine's configuration.
const main = `daemon off;
master_process %s;
worker_processes %d;
pid %[3]s/pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000;
	client_body_temp_path %[3]s/body;
	proxy_temp_path %[3]s/proxy;
	fastcgi_temp_path %[3]s/fastcgi;
	uwsgi_temp_path %[3]s/uwsgi;
	scgi_temp_path %[3]s/scgi;
%[4]s
}
`

// Server is a running nginx. It ends with the test.
type Server struct {
	// Addr is host:port.
	Addr string
	// Dir is its folder, for what the configuration needs.
	Dir string

	process *os.Process
}

// Config returns the content of the block "http": a server that listens on addr.
type Config func(addr, dir string) string

// Start runs nginx with that many workers, 0 for a single process, and returns once it listens. If
// nginx is missing the test fails and says how to install it.
func Start(tb testing.TB, workers int, config Config) *Server {
	tb.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx" // not in every user's PATH
	}
	if _, err := os.Stat(nginx); err != nil {
		tb.Fatal("nginx is not installed: run `make system` or `apt-get install nginx-light`")
	}
	s := &Server{Addr: loopback.Addr(tb), Dir: tb.TempDir()}
	master := "on"
	if workers == 0 {
		master, workers = "off", 1
	}
	user := ""
	if os.Geteuid() == 0 { // root's nginx runs its workers as nobody, who could not read the folder
		user = "user root;\n"
	}
	path := filepath.Join(s.Dir, "nginx.conf")
	text := user + fmt.Sprintf(main, master, workers, s.Dir, config(s.Addr, s.Dir))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.run(tb, nginx, path)
	return s
}

// run keeps nginx running until the test ends.
func (s *Server) run(tb testing.TB, nginx, config string) {
	tb.Helper()
	var said strings.Builder
	command := exec.Command(nginx, "-p", s.Dir, "-c", config, "-e", "stderr")
	command.Stdout, command.Stderr = &said, &said
	ended, err := childproc.Start(command)
	if err != nil {
		tb.Fatalf("start nginx: %v", err)
	}
	s.process = command.Process
	tb.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // also ends its workers
		<-ended
		if tb.Failed() {
			tb.Logf("nginx said:\n%s", said.String())
		}
	})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ended:
			tb.Fatalf("nginx ended at once: %s", said.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	tb.Fatalf("nginx does not listen on %s", s.Addr)
}

// PIDs returns the processes, including workers, if the system reports them.
func (s *Server) PIDs(tb testing.TB) []int {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.process.Pid))
	if err != nil {
		tb.Fatalf("find nginx's workers: %v", err)
	}
	pids := []int{s.process.Pid}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			tb.Fatalf("find nginx's workers: %v", err)
		}
		pids = append(pids, pid)
	}
	return pids
}
