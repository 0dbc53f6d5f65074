// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestEveryKindIsListed looks every kind up in the table.
func TestEveryKindIsListed(t *testing.T) {
	t.Parallel()
	for _, kind := range catalog.Kinds() {
		if _, ok := kinds[kind]; !ok {
			t.Errorf("%s is not in the table", kind)
		}
	}
	if len(kinds) != len(catalog.Kinds()) {
		t.Errorf("the table has %d kinds, and there are %d of objects", len(kinds), len(catalog.Kinds()))
	}
}
