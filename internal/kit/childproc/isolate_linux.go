// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package childproc

import (
	"os/exec"
	"syscall"
)

// isolate puts the child into a process group of its own, and has the kernel kill it when the
// thread that started it ends.
func isolate(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}

// guard does nothing on Linux, because isolate already has the kernel kill the child.
func guard(int) (release func(), err error) { return func() {}, nil }
