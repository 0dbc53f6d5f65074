// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs the parts of a benchmark in separate processes, so that the cost of each can
// be distinguished from the cost of its callers.
package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/program"
)

const module = "github.com/leatdev/leat/"

// Build compiles a command, given by its path in the repository, and returns the path of the
// binary.
func Build(tb testing.TB, command string) string {
	tb.Helper()
	return compile(tb, exec.CommandContext(tb.Context(), "go", "build"), path.Base(command), module+command)
}

// BuildPeer compiles a peer, which is a module outside of the workspace, in a folder relative to
// the caller's.
func BuildPeer(tb testing.TB, dir string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "go", "build")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	return compile(tb, cmd, filepath.Base(dir), ".")
}

func compile(tb testing.TB, cmd *exec.Cmd, name, target string) string {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), name)
	cmd.Args = append(cmd.Args, "-o", binary, target)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return binary
}

// Params describe the program to run.
type Params struct {
	// Binary is the program, and Args are what follows its name.
	Binary string
	Args   []string
	// Env is added to the environment.
	Env []string
	// Stdout receives the standard output. Nil: it is dropped. Standard error is the benchmark's.
	Stdout io.Writer
}

// Process is a running program. It ends with the benchmark at the latest.
type Process struct{ program *program.Program }

// Start starts a program. It does not wait until it serves.
func Start(tb testing.TB, p Params) *Process {
	tb.Helper()
	cmd := exec.Command(p.Binary, p.Args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), p.Env...), p.Stdout, os.Stderr
	return &Process{program: program.Start(tb, cmd)}
}

// Kill kills the process, and returns when it has ended.
func (p *Process) Kill() { p.program.End(syscall.SIGKILL) }

// Stop asks the process to end, and returns when it has. It fails the benchmark if that takes
// longer than a minute.
func (p *Process) Stop(tb testing.TB) {
	tb.Helper()
	if err := p.program.Signal(syscall.SIGTERM); err != nil {
		tb.Fatalf("stop process %d: %v", p.program.PID(), err)
	}
	select {
	case <-p.program.Ended():
	case <-time.After(time.Minute):
		tb.Fatalf("process %d did not end in a minute", p.program.PID())
	}
}

// clockTick is the unit of time in /proc, the same on every Linux.
const clockTick = 10 * time.Millisecond

// CPU returns the CPU time that the process has used, in user and kernel mode. A nil process uses
// none.
func (p *Process) CPU(tb testing.TB) time.Duration {
	tb.Helper()
	if p == nil {
		return 0
	}
	stat := p.proc(tb, "stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, the 14th and 15th field in all
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// Memory returns the process's resident memory in bytes, current and peak.
func (p *Process) Memory(tb testing.TB) (now, highest int64) {
	tb.Helper()
	if p == nil {
		return 0, 0
	}
	for line := range strings.Lines(p.proc(tb, "status")) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			now = kib << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			highest = kib << 10
		}
	}
	return now, highest
}

// Children returns the bytes of memory that the children of the process have for themselves: without the pages of
// files, such as those of the program, which they share with it.
func (p *Process) Children(tb testing.TB) (bytes int64) {
	tb.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.program.PID()))
	if err != nil {
		tb.Fatal(err)
	}
	for _, thread := range threads {
		// A thread or a child that has ended meanwhile has no file, and no memory.
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", p.program.PID(), thread.Name()))
		for child := range strings.FieldsSeq(string(children)) {
			status, _ := os.ReadFile("/proc/" + child + "/status")
			for line := range strings.Lines(string(status)) {
				var kib int64
				if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kib); err == nil {
					bytes += kib << 10
				}
			}
		}
	}
	return bytes
}

func (p *Process) proc(tb testing.TB, file string) string {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.program.PID(), file))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
