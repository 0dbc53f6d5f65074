// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leatdev/leat/internal/kit/childproc"
)

// command describes a component's process.
type command struct {
	name string // of the component, and of its log file
	path string
	args []string
	dir  string // its working directory
	env  []string
	log  string // path of the file that takes its output
}

// process is a started component. It is safe for concurrent use.
type process struct {
	command
	cmd  *exec.Cmd
	done <-chan struct{} // closed when the process has ended; cmd.ProcessState then has the result

	expected bool // its end was requested; guarded by ControlPlane.mu
}

// startProcess starts c. The child never outlives this process.
func startProcess(c command) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(c.log), 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	output, err := os.OpenFile(c.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer output.Close() // the child has its own copy

	// No context bounds its lifetime: stop ends it.
	cmd := exec.CommandContext(context.Background(), c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(cmd.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = output, output
	done, err := childproc.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return &process{command: c, cmd: cmd, done: done}, nil
}

// stop asks the process to end and waits until it has. If ctx ends first, it kills the process and
// returns an error.
func (p *process) stop(ctx context.Context) error {
	if p.ended() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended in the meantime
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("stop %s: killed: %w", p.name, ctx.Err())
	}
}

// kill kills the process, unless it has ended, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure describes an unexpected end. It must not be called before the process has ended.
func (p *process) failure() error {
	return fmt.Errorf("%s ended: %s%s", p.name, p.cmd.ProcessState, p.logTail())
}

// logTail returns the end of the component's log, formatted to follow an error's text.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("\nlast lines of %s:\n%s", p.log, lastLines(string(text), 15))
}

// lastLines returns the last n lines of text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
