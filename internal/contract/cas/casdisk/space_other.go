// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package casdisk

import "errors"

// statSpace returns an error on systems without statfs. A full disk then shows only when it is
// written to.
func statSpace(string) (free, total int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
