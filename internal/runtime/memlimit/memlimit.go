// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package memlimit reads how much memory this process may use. Services derive the defaults of
// their budgets from it.
package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// Root is where Linux mounts the process's control group.
const Root = "/sys/fs/cgroup"

// Bytes returns how many bytes of memory the process may use: the smaller of GOMEMLIMIT and the
// limit of the control group mounted at root. ok is false if neither sets a limit.
func Bytes(root string) (limit int64, ok bool) {
	limit = debug.SetMemoryLimit(-1) // a negative limit only reads
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		if bytes, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && bytes > 0 {
			limit = min(limit, bytes)
		}
	}
	if limit >= math.MaxInt64/2 { // version 1 of control groups uses a number close to this for "none"
		return 0, false
	}
	return limit, true
}

// Keep makes the garbage collector keep the process below nine tenths of the control group's limit,
// which is mounted at root, if neither GOMEMLIMIT nor an earlier call set a limit. Without it the heap
// grows until the kernel kills the process. The remaining tenth is for what the collector does not
// count. It is for main functions of programs that have the control group to themselves.
func Keep(root string) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return
	}
	if limit, ok := Bytes(root); ok {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// Share is a fraction of the memory that the process may use.
type Share struct {
	// Root is where the control group is mounted, usually [Root].
	Root string
	// Divisor is the denominator of the fraction: 2 means half.
	Divisor int64
	// Least is the minimum of the share in bytes, even if the process may use less.
	Least int64
	// Fallback is the share in bytes if no limit is set.
	Fallback int64
}

// Bytes returns the share in bytes.
func (s Share) Bytes() int64 {
	limit, ok := Bytes(s.Root)
	if !ok {
		return s.Fallback
	}
	return max(limit/s.Divisor, s.Least)
}
