// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package childproc

import (
	"os/exec"
	"syscall"
)

// KillGroup kills a child that Start started, and every process of its group. It must not be called after the child's end was told:
// its number may be another's by then.
func KillGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only when there is nobody left to kill
}
