// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestProblemsAreSeen holds the tellers to what each kind says of the problems of its objects: people are notified of them,
// wherever they are known.
func TestProblemsAreSeen(t *testing.T) {
	t.Parallel()
	for i, kind := range catalog.Kinds() {
		if isSeen, has := tellers[i].seen != nil, kind.HasProblems() || kind == catalog.KindAccessRequest; isSeen != has {
			t.Errorf("%s: its problems are seen: %t, and it says that it has some: %t", kind, isSeen, has)
		}
	}
}
