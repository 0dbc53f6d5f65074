// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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

// process is a component that was started. It is safe for concurrent use.
type process struct {
	command
	child *os.Process
	done  chan struct{} // closed when the process has ended and err is set
	err   error         // how it ended; read it after done

	expected bool // its end was asked for; guarded by ControlPlane.mu
}

// startProcess starts c. The child does not outlive this process, however that ends.
func startProcess(c command) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(c.log), 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	output, err := os.OpenFile(c.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer output.Close() // the child has its own copy

	// No context bounds its life: stop ends it.
	cmd := exec.CommandContext(context.Background(), c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(cmd.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = output, output
	isolate(cmd)

	p := &process{command: c, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return p, nil
}

// run starts cmd and waits for its end. On Linux the kernel kills the child
// when the thread that started it ends, so this goroutine keeps its thread for
// as long as the child lives.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	release, err := guard(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		started <- err
		return
	}
	p.child = cmd.Process
	started <- nil
	p.err = cmd.Wait()
	release()
	close(p.done)
}

// stop asks the process to end and waits until it has; when ctx ends first the
// process is killed, and stop says so.
func (p *process) stop(ctx context.Context) error {
	if p.ended() {
		return nil
	}
	_ = p.child.Signal(syscall.SIGTERM) // an error means that it has ended meanwhile
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		_ = p.child.Kill()
		<-p.done
		return fmt.Errorf("stop %s: killed: %w", p.name, ctx.Err())
	}
}

// ended reports whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure describes an end that nobody asked for. Call it only after that.
func (p *process) failure() error {
	cause := p.err
	if cause == nil {
		cause = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w%s", p.name, cause, p.logTail())
}

// logTail is the end of the component's log, made to follow an error's text.
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
