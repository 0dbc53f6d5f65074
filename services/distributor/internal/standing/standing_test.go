// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package standing_test

import (
	"slices"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/standing"
)

// TestEveryKindIsReadOrNot enforces that it is decided of each kind whether the states of its objects are in the
// database alone.
func TestEveryKindIsReadOrNot(t *testing.T) {
	t.Parallel()
	unread := []catalog.Kind{
		catalog.KindProject, catalog.KindCluster, catalog.KindRepository, catalog.KindConfigSet, catalog.KindService, catalog.KindGlobalService,
		catalog.KindUser, catalog.KindRole, catalog.KindAccessBinding, catalog.KindIdentityProvider, catalog.KindTrustRule,
	}
	for _, kind := range catalog.Kinds() {
		if isRead := slices.Contains(standing.Kinds(), kind); isRead == slices.Contains(unread, kind) {
			t.Errorf("%s: read: %t, and in the list of those that are not: %t", kind, isRead, !isRead)
		}
	}
}
