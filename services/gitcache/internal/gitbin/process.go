// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/memory"
)

const (
	// patience is how long a process may take to end once it was asked to.
	patience = 5 * time.Second
	// maxSaid bounds the kept part of a process's error stream.
	maxSaid = 4 << 10
)

// program is the git executable.
type program struct {
	path string
	home string // what it takes for the user's folder
	// budget admits packs that are indexed.
	budget *memory.Budget
	// memory bounds the bytes that one process may allocate, if the system supports that. Zero: no
	// bound.
	memory int64
}

// command prepares a process on a bare repository; without one where dir is empty. The process is
// in a group of its own, which ends with the context.
func (p program) command(ctx context.Context, dir string, args ...string) *process {
	global := []string{
		"--no-pager", "--no-replace-objects", "--literal-pathspecs",
		"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c", "protocol.allow=never", "-c", "gc.auto=0",
		"-c", "maintenance.auto=false",
	}
	if dir != "" {
		global = append(global, "--git-dir="+dir)
	}
	cmd := exec.CommandContext(ctx, p.path, append(global, args...)...)
	// Nothing is inherited: neither settings nor secrets of this process are git's.
	cmd.Env = []string{
		"HOME=" + p.home, "XDG_CONFIG_HOME=" + p.home, "PATH=" + os.DevNull, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=" + os.DevNull, "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
	}
	cmd.WaitDelay = patience
	run := &process{ctx: ctx, cmd: cmd, memory: p.memory}
	cmd.Stderr = &run.said
	group(cmd)
	return run
}

// process is one run of git.
type process struct {
	ctx  context.Context //nolint:containedctx // the context of the command
	cmd  *exec.Cmd
	said said
	// memory is [program.memory].
	memory int64
}

// start starts git and bounds its memory. A pack from an upstream may make git need any amount of
// memory. The bound makes git fail instead of the container. It applies right after the start,
// before git has read anything.
func (p *process) start() error {
	if err := p.cmd.Start(); err != nil || p.memory == 0 {
		return err
	}
	if err := boundMemory(p.cmd.Process.Pid, p.memory); err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return fmt.Errorf("bound memory: %w", err)
	}
	return nil
}

// wait waits for the end, and sees to it that nothing of the group is left.
func (p *process) wait() error {
	err := p.cmd.Wait()
	killGroup(p.cmd)
	return p.explain(err)
}

// explain turns the end of a process into an error.
func (p *process) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	said := p.said.text()
	if p.memory > 0 && strings.Contains(said, "Out of memory") {
		return &memory.TooLargeError{Need: p.memory + 1, Limit: p.memory}
	}
	if strings.Contains(said, "No space left on device") {
		return fmt.Errorf("git: %w", syscall.ENOSPC)
	}
	return &exitError{said: said, cause: err}
}

// exitError is a process that failed.
type exitError struct {
	said  string
	cause error
}

// Error implements error.
func (e *exitError) Error() string { return fmt.Sprintf("git: %v: %q", e.cause, e.said) }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.cause }

// output runs git with an input, or none where that is nil, and returns what it prints, which is
// little.
func (p program) output(ctx context.Context, dir string, input io.Reader, args ...string) (string, error) {
	var out bytes.Buffer
	run := p.command(ctx, dir, args...)
	run.cmd.Stdin, run.cmd.Stdout = input, &out
	if err := run.start(); err != nil {
		return "", fmt.Errorf("start git: %w", err)
	}
	err := run.wait()
	return strings.TrimSpace(out.String()), err
}

// said keeps the first bytes of an error stream.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write takes everything and keeps what fits.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(p[:min(len(p), maxSaid-s.buf.Len())])
	return len(p), nil
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(s.buf.String())
}
