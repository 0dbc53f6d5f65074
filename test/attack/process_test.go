// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/program"
)

// pause is the time between two checks of another process.
const pause = 50 * time.Millisecond

// build compiles the command in a folder of the checkout and returns the binary. It disables cgo,
// as the Dockerfile does. Binaries stay in the user's cache, so that the next run links only what
// has changed. If LEAT_ATTACK_BIN names a folder, build returns the binary from there.
func build(t *testing.T, command string) string {
	t.Helper()
	if given := os.Getenv("LEAT_ATTACK_BIN"); given != "" {
		return filepath.Join(given, path.Base(command))
	}
	root, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	checkout := sha256.Sum256([]byte(root))
	binary := filepath.Join(cache, "leat-attack", hex.EncodeToString(checkout[:6]), path.Base(command))
	if _, err := program.Compile(t.Context(), filepath.Dir(binary), filepath.Join(root, command)); err != nil {
		t.Fatal(err)
	}
	return binary
}

// server is a process under attack: a service, or the peer for the comparison.
type server struct {
	name    string // in tables; two servers may run the same program
	service string // the program
	args    []string
	env     []string
	limit   int64 // of its memory, in bytes; zero: no limit
	log     string

	public, internal string // host:port; the same if it has only one port
	secure           bool   // it serves TLS
	proxied          bool   // its public port accepts connections from a load balancer
	procedures       []procedure

	cage   cage
	cmd    *exec.Cmd
	exited <-chan struct{}
	idle   int64 // resident bytes soon after the start
}

// slack is how much a process may map beyond its resident memory, if its mappings are limited: for
// the runtime's own tables, and for memory that was returned to the kernel.
const slack = 192 << 20

// start starts the process under its limit.
func (s *server) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.limit > 0 {
		s.cage = enclose(s.name, s.limit)
		s.cage.hold(s.cmd)
	}
	if s.exited, err = childproc.Start(s.cmd); err != nil {
		t.Fatal(err)
	}
}

// alive reports whether the process runs.
func (s *server) alive() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// stop kills the process.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may already have ended
	<-s.exited
	s.cage.open()
}

// run starts the process, and waits until it is ready. It then records its idle memory.
func (s *server) run(t *testing.T) {
	t.Helper()
	s.start(t)
	await.Poll(t, s.name+" to be ready", pause, func() (bool, string) {
		if !s.alive() {
			t.Fatalf("%s ended instead of becoming ready (%s); its log ends so:\n%s", s.name, s.cmd.ProcessState, tail(s.log))
		}
		return s.ready(t.Context()), ""
	})
	s.idle, _ = s.memory()
}

// ready reports whether either port answers that the server is ready.
func (s *server) ready(ctx context.Context) bool {
	paths := []string{"/readyz"}
	if s.service == "agent" { // the agent is ready only once it has a plan
		paths = []string{"/healthz"}
	}
	for _, addr := range s.ports() {
		for _, path := range paths {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(addr, path), http.NoBody)
			if err != nil {
				return false
			}
			response, err := s.client().Do(request)
			if err != nil {
				continue
			}
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	return false
}

// hasTLS reports whether a port uses TLS. Internal ports of services do not.
func (s *server) hasTLS(addr string) bool {
	return s.secure && (addr == s.public || s.service == "peer")
}

// url returns the URL of a path at a port.
func (s *server) url(addr, path string) string {
	if s.hasTLS(addr) {
		return "https://" + addr + path
	}
	return "http://" + addr + path
}

// ports returns the addresses of the ports, each once.
func (s *server) ports() []string {
	if s.public == s.internal {
		return []string{s.public}
	}
	return []string{s.public, s.internal}
}

// fresh restarts the process if it has ended, still uses twice its idle memory, or always is set.
func (s *server) fresh(t *testing.T, always bool) {
	t.Helper()
	if now, _ := s.memory(); s.alive() && !always && now < 2*s.idle {
		return
	}
	s.stop()
	s.run(t)
}

// memory returns the current and the highest resident memory in bytes. Both are zero if the process
// has ended.
func (s *server) memory() (now, highest int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, 0
	}
	for line := range bytes.Lines(status) {
		var kib int64
		if _, err := fmt.Sscanf(string(line), "VmRSS: %d kB", &kib); err == nil {
			now = kib << 10
		}
		if _, err := fmt.Sscanf(string(line), "VmHWM: %d kB", &kib); err == nil {
			highest = kib << 10
		}
	}
	return now, max(now, highest)
}

// clockTick is the unit of time in /proc, the same on every Linux system.
const clockTick = 10 * time.Millisecond

// cpu returns the CPU time that the process has used, in user and kernel mode. It is zero if the
// process has ended.
func (s *server) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, fields 14 and 15 of the file
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// peak watches the memory of a process until stop is called.
type peak struct {
	server  *server
	highest int64 // before the watch
	sampled int64
	ended   chan struct{}
	over    sync.WaitGroup
}

func (s *server) watch() *peak {
	_, highest := s.memory()
	p := &peak{server: s, highest: highest, ended: make(chan struct{})}
	p.over.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			now, _ := s.memory()
			p.sampled = max(p.sampled, now)
			select {
			case <-tick.C:
			case <-p.ended:
				return
			}
		}
	})
	return p
}

// stop returns the highest resident memory since the watch began.
func (p *peak) stop() int64 {
	close(p.ended)
	p.over.Wait()
	if _, highest := p.server.memory(); highest > p.highest {
		return highest
	}
	return p.sampled
}

// cage limits the memory of a process: with a control group (version 2) if the test may create one,
// else by limiting what the process may map.
type cage struct {
	group *os.File // the folder of the control group; nil: none
	limit int64
}

// enclose returns a cage. A service that exceeds its limit is killed, as its pod would be.
func enclose(name string, limit int64) cage {
	without := cage{limit: limit}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return without
	}
	group, unified := strings.CutPrefix(strings.TrimSpace(string(own)), "0::")
	if !unified { // version 1, or both versions
		return without
	}
	// The group is a sibling of our own, since a group with processes cannot have groups with
	// controllers below it.
	dir := filepath.Join("/sys/fs/cgroup", filepath.Dir(group), fmt.Sprintf("leat-attack-%d-%s", os.Getpid(), name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return without
	}
	for file, value := range map[string]string{"memory.max": strconv.FormatInt(limit, 10), "memory.swap.max": "0"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
			_ = os.Remove(dir)
			return without
		}
	}
	opened, err := os.Open(dir)
	if err != nil {
		_ = os.Remove(dir)
		return without
	}
	return cage{group: opened, limit: limit}
}

// hold makes cmd start inside the cage.
func (c cage) hold(cmd *exec.Cmd) {
	if c.group != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(c.group.Fd())}
		return
	}
	limited := exec.Command("sh", append([]string{"-c", `ulimit -d "$0" && exec "$@"`, strconv.FormatInt((c.limit+slack)>>10, 10)}, cmd.Args...)...)
	cmd.Path, cmd.Args, cmd.Err = limited.Path, limited.Args, limited.Err
}

// open removes the control group, which has no processes left.
func (c cage) open() {
	if c.group != nil {
		_ = os.Remove(c.group.Name())
		_ = c.group.Close()
	}
}

// tail returns the end of a file.
func tail(path string) string {
	const enough = 6_000
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(content) > enough {
		content = content[len(content)-enough:]
	}
	return string(content)
}
