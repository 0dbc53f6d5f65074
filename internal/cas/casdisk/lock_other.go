// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package casdisk

import (
	"io"
	"os"
)

// lockFile only creates the file. On systems without flock, the operator must start only one
// process per folder.
func lockFile(path string) (io.Closer, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a file of the store
}
