// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package childproc starts processes that do not outlive the one that started them.
package childproc

import (
	"os/exec"
	"runtime"
)

// Start starts cmd in a process group of its own, so that Ctrl-C in the terminal reaches this process alone, which then ends its children in
// order. However this process ends, the kernel or a guard kills the child with SIGKILL; the child's own children are its business. cmd must
// not be waited for: the channel is closed when the child has ended, and cmd.ProcessState tells how. Nor has it pipes, which its end would
// close before they are read.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	isolate(cmd)
	started, done := make(chan error, 1), make(chan struct{})
	go run(cmd, started, done)
	if err := <-started; err != nil {
		return nil, err
	}
	return done, nil
}

// run starts cmd and waits for its end. On Linux the kernel kills the child when the thread that started it ends, so this goroutine keeps its
// thread for as long as the child lives.
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
