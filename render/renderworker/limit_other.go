// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package renderworker

import (
	"os"
	"os/exec"
	"time"
)

// limit does nothing on these systems, which only developers use. There only the deadline ends a
// build.
func limit(bounds) error { return nil }

func cpuTime() time.Duration { return 0 }

func unplug(*exec.Cmd) {}

func killed(*os.ProcessState) bool { return false }
