// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package childproc starts processes that do not outlive the one that started them.
package childproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Start starts cmd in a process group of its own, so that Ctrl-C in the terminal reaches only this
// process, which then ends its children in order. However this process ends, the kernel or a guard
// kills the child with SIGKILL. The child is responsible for its own children. The caller must not
// wait for cmd: Start closes the channel when the child has ended, and cmd.ProcessState then holds
// the result. cmd must not use pipes of its own, because waiting closes them before they are read.
// For pipes use StartPiped.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	isolate(cmd)
	started, done := make(chan error, 1), make(chan struct{})
	go run(cmd, started, done)
	if err := <-started; err != nil {
		return nil, err
	}
	return done, nil
}

// run starts cmd and waits for its end. On Linux the kernel kills the child when the thread that
// started it ends, so this goroutine keeps its thread for as long as the child lives.
func run(cmd *exec.Cmd, started chan<- error, done chan<- struct{}) {
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
	started <- nil
	_ = cmd.Wait() // cmd.ProcessState has it, too
	release()
	close(done)
}

// Pipes are this process's ends of the pipes to a child. They stay open after the child has ended,
// so that its output can still be read. They support deadlines. The caller closes them.
type Pipes struct {
	In  *os.File // the child's standard input
	Out *os.File // its standard output
}

// Close closes both ends.
func (p Pipes) Close() error {
	return errors.Join(p.In.Close(), p.Out.Close())
}

// StartPiped is Start for a command whose standard input and output are pipes to this process. It
// sets cmd.Stdin and cmd.Stdout.
func StartPiped(cmd *exec.Cmd) (Pipes, <-chan struct{}, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return Pipes{}, nil, fmt.Errorf("make pipe: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return Pipes{}, nil, errors.Join(fmt.Errorf("make pipe: %w", err), childIn.Close(), in.Close())
	}
	pipes := Pipes{In: in, Out: out}
	cmd.Stdin, cmd.Stdout = childIn, childOut
	ended, err := Start(cmd)
	// The child has its own copies of these. If this process kept its copies open, it would not
	// notice when the child closes its end.
	if closed := errors.Join(childIn.Close(), childOut.Close()); err == nil {
		err = closed
	}
	if err != nil {
		return Pipes{}, nil, errors.Join(err, pipes.Close())
	}
	return pipes, ended, nil
}
