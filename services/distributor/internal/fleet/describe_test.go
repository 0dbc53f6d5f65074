// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// TestEveryKindIsDescribed enforces that each kind says what the view knows of its objects.
func TestEveryKindIsDescribed(t *testing.T) {
	t.Parallel()
	for i, kind := range catalog.Kinds() {
		if tellers[i].record == nil || tellers[i].row == nil {
			t.Errorf("%s: has no teller", kind)
		}
	}
}
