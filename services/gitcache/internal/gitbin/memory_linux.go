// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"errors"

	"golang.org/x/sys/unix"
)

// boundMemory limits the bytes that a process may allocate. Files that it maps for reading, as git
// maps packs, do not count.
func boundMemory(pid int, bytes int64) error {
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	err := unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil)
	if errors.Is(err, unix.ESRCH) { // the process has ended
		return nil
	}
	return err
}
