// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import "golang.org/x/sys/unix"

// forget makes the kernel drop its cached pages of a file, so that reading it reads the disk.
func (f *file) forget() {
	_ = unix.Fadvise(int(f.os.Fd()), 0, 0, unix.FADV_DONTNEED) // only advice, which may fail
}
