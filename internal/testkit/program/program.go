// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package program runs programs for tests and benchmarks, as processes that do not outlive them.
package program

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/testkit/await"
)

// Program is a running program. All methods may be called concurrently.
type Program struct {
	command *exec.Cmd
	ended   <-chan struct{}
	said    output
}

// Start starts the command, and kills it when the test ends. If the command has neither an output
// nor an error output, a test that fails logs what the program printed.
func Start(t testing.TB, command *exec.Cmd) *Program {
	t.Helper()
	p := &Program{command: command}
	if command.Stdout == nil && command.Stderr == nil {
		command.Stdout, command.Stderr = &p.said, &p.said
	}
	var err error
	if p.ended, err = childproc.Start(command); err != nil {
		t.Fatalf("start %s: %v", p.name(), err)
	}
	t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if said := p.said.String(); t.Failed() && said != "" {
			t.Logf("%s printed:\n%s", p.name(), said)
		}
	})
	return p
}

func (p *Program) name() string { return filepath.Base(p.command.Path) }

// Await polls until ready returns true. It fails the test, with the program's output, if the
// program ends first, or after [await.Patience].
func (p *Program) Await(t testing.TB, ready func() bool) {
	t.Helper()
	ctx := await.Context(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("%s ended instead of becoming ready (%s):\n%s", p.name(), p.command.ProcessState, p.said.String())
		case <-ctx.Done():
			t.Fatalf("%s is not ready:\n%s", p.name(), p.said.String())
		}
	}
}

// End sends the signal and blocks until the program has ended. A frozen program is thawed, because
// it would ignore most signals. End does nothing to a program that has ended.
func (p *Program) End(signal os.Signal) {
	_ = p.command.Process.Signal(signal) // an error means that it has ended
	_ = p.command.Process.Signal(syscall.SIGCONT)
	<-p.ended
}

// Signal sends a signal.
func (p *Program) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Ended is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// PID returns the number of the process.
func (p *Program) PID() int { return p.command.Process.Pid }

// output collects what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all that was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
