// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package audit

import (
	"os"

	"golang.org/x/sys/unix"
)

// atomicWrite is the largest write that a pipe with room takes as a whole (POSIX's PIPE_BUF, on
// Linux).
const atomicWrite = 4 << 10

// promptFile returns a function that reports whether a write of so many bytes to a file would not
// block: it is a regular file, or a pipe with room. Nil is returned for everything else.
func promptFile(file *os.File) func(bytes int64) bool {
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	if info.Mode().IsRegular() {
		return func(int64) bool { return true }
	}
	raw, err := file.SyscallConn()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return nil
	}
	return func(bytes int64) bool {
		room := false
		err := raw.Control(func(fd uintptr) {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			n, err := unix.Poll(poll, 0)
			room = err == nil && n == 1 && poll[0].Revents == unix.POLLOUT
		})
		return err == nil && room && bytes <= atomicWrite
	}
}
