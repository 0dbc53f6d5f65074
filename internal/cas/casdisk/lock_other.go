// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package casdisk

import (
	"io"
	"os"
)

// lockFile only makes the file: where there is no flock, the folder is protected by who may start
// the process.
func lockFile(path string) (io.Closer, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a file of the store
}
