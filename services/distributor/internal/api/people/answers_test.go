// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestEveryKindAnswers asks for the answers of every kind. One that the table lacks would be seen by nobody.
func TestEveryKindAnswers(t *testing.T) {
	t.Parallel()
	for _, kind := range catalog.Kinds() {
		if _, ok := kindAnswers[kind]; !ok {
			t.Errorf("%s is not in the table", kind)
		}
	}
	if len(kindAnswers) != len(catalog.Kinds()) {
		t.Errorf("the table has %d kinds, and there are %d of objects", len(kindAnswers), len(catalog.Kinds()))
	}
}
