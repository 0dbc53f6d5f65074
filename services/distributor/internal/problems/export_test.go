// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems

import "github.com/leatdev/leat/services/distributor/internal/spine/catalog"

// IsDecided reports whether it is decided what may be wrong with the rows of a kind.
func IsDecided(kind catalog.Kind) bool {
	_, ok := inRows[kind]
	return ok
}
