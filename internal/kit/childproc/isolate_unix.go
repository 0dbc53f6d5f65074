// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package childproc

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// isolate puts the child into a process group of its own.
func isolate(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// guard has the child killed when this process dies, for which these systems
// have no call: a shell waits on a pipe whose other end closes with this
// process. The caller calls release once the child has ended.
func guard(pid int) (release func(), err error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", `read -r word; [ "$word" = released ] || kill -9 "$0"`, strconv.Itoa(pid))
	isolate(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard process %d: %w", pid, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard process %d: %w", pid, err)
	}
	return func() {
		_, _ = pipe.Write([]byte("released\n"))
		_ = pipe.Close()
		_ = cmd.Wait()
	}, nil
}
