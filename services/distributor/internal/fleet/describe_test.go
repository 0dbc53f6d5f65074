// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestEveryKindAnswers enforces that each kind has its line in the tables of the package.
func TestEveryKindAnswers(t *testing.T) {
	t.Parallel()
	for i, kind := range catalog.Kinds() {
		if tellers[i].record == nil || tellers[i].row == nil {
			t.Errorf("%s: not in tellers", kind)
		}
		if _, ok := edits[kind]; !ok {
			t.Errorf("%s: not in edits", kind)
		}
		if _, ok := announced[kind]; !ok {
			t.Errorf("%s: not in announced", kind)
		}
	}
}
