// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"os/exec"
	"syscall"
)

// isolate puts the child into a process group of its own, so that Ctrl-C in the
// terminal reaches this process alone, which then stops its children in order;
// and has the kernel kill the child when the thread that started it ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// guard does nothing here: isolate has seen to it.
func guard(int) (release func(), err error) { return func() {}, nil }
