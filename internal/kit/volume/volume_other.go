// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package volume

import "errors"

// Space returns an error on systems without statfs. A full disk then shows only when it is written to.
func Space(string) (free, size int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
