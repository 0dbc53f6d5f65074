// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package volume

import "syscall"

// Space returns the bytes that are free for this process on the file system that holds path, and its
// size.
func Space(path string) (free, size int64, err error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	block := int64(stat.Bsize) //nolint:unconvert // its type differs
	return int64(stat.Bavail) * block, int64(stat.Blocks) * block, nil
}
