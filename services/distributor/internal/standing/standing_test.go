// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package standing_test

import (
	"slices"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/standing"
)

// TestProblemsAreFoundOnce enforces that the problems of each kind that has some are found: in its rows, or by a reading of
// the database.
func TestProblemsAreFoundOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range catalog.Kinds() {
		isRead, isInRows := slices.Contains(standing.Kinds(), kind), problems.IsInRows(kind)
		if has := kind.HasProblems(); has != (isRead || isInRows) || isRead && isInRows {
			t.Errorf("%s: read: %t, in rows: %t, and it says that it has problems: %t", kind, isRead, isInRows, has)
		}
	}
}
