// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package casdisk

import "syscall"

// statSpace asks the file system that holds path.
func statSpace(path string) (free, total int64, err error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	block := int64(stat.Bsize) //nolint:unconvert // its type differs
	return int64(stat.Bavail) * block, int64(stat.Blocks) * block, nil
}
