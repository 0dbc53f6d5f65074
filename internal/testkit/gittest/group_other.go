// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package gittest

import "os/exec"

// grouped leaves a command as it is.
func grouped(*exec.Cmd) {}
