// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"slices"
	"testing"

	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestEveryKindAnswers asks for the answers of every kind. One that the table lacks would be seen by nobody.
// TestEveryNeedIsDecided enforces that a kind decides about edits of its fields if the need of one of them depends on the
// kind. (An edit that nothing decides about is refused.)
func TestEveryNeedIsDecided(t *testing.T) {
	t.Parallel()
	dependsOnKind := []optionsv1.Edit{
		optionsv1.Edit_EDIT_FOREIGN_CLUSTER, optionsv1.Edit_EDIT_PROJECT_SERVICES, optionsv1.Edit_EDIT_SHARE, optionsv1.Edit_EDIT_LOOSEN,
		optionsv1.Edit_EDIT_ALL_PROJECTS, optionsv1.Edit_EDIT_GIVE, optionsv1.Edit_EDIT_DEFINE, optionsv1.Edit_EDIT_BECOME, optionsv1.Edit_EDIT_DIRECT,
	}
	for _, kind := range catalog.Kinds() {
		needs := slices.ContainsFunc(permission.Declared(fleetdoc.Kinds()[string(kind)].Message()), func(edit permission.Edit) bool {
			return slices.Contains(dependsOnKind, edit.Needs)
		})
		if decides := kindAnswers[kind].mayWrite != nil; decides != needs {
			t.Errorf("%s: decides about edits: %t, and a field needs it: %t", kind, decides, needs)
		}
	}
}
