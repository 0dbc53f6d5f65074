// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package gitbin

import "os/exec"

// group does nothing: these systems have no groups of processes, and git starts no others for what
// it is used for.
func group(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
