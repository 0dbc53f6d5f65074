// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package childproc

import "os/exec"

// KillGroup kills a child that Start has started.
func KillGroup(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
}
