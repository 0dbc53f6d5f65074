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

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

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

	program *program.Program
}

// Config returns the content of the block "http": a server that listens on addr.
type Config func(addr, dir string) string

// Start runs nginx with that many workers, 0 for a single process, and returns once it listens. If
// nginx is missing the test fails with advice on how to install it.
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
	s.program = program.Start(tb, exec.Command(nginx, "-p", s.Dir, "-c", path, "-e", "stderr"))
	tb.Cleanup(func() { s.program.End(syscall.SIGTERM) }) // also ends its workers
	s.awaitPort(tb)
	return s
}

// awaitPort waits until nginx listens.
func (s *Server) awaitPort(tb testing.TB) {
	tb.Helper()
	s.program.Await(tb, func() bool {
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// PIDs returns the processes, including workers, if the system reports them.
func (s *Server) PIDs(tb testing.TB) []int {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.program.PID()))
	if err != nil {
		tb.Fatalf("find nginx's workers: %v", err)
	}
	pids := []int{s.program.PID()}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			tb.Fatalf("find nginx's workers: %v", err)
		}
		pids = append(pids, pid)
	}
	return pids
}
