// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package childproc

import (
	"os/exec"
	"syscall"
)

// KillGroup kills a child that Start has started, and every process of its group. The caller must
// not use it after the channel of Start is closed: by then the kernel may have given the group's
// number to another process.
func KillGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only if no process of the group is left
}
