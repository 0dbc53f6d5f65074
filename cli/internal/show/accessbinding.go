// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// accessBindingKind shows access bindings.
var accessBindingKind = kind{
	columns: []string{"NAME", "ROLE", "USERS", "GROUPS", "SCOPE", "COVERS", "RULES", "ENDS"},
	cells:   bindingCells,
}

func bindingCells(object *fleetv1.Document, now time.Time) []cell {
	b := object.GetAccessBinding()
	spec := b.GetSpec()
	return []cell{
		plain(b.GetMetadata().GetName()), role(spec.GetRole(), spec.GetRoleName()), list(spec.GetUsers()), list(spec.GetGroups()),
		plain(scope(spec)), plain(fmt.Sprint(b.GetStatus().GetClusters())), rules(spec.GetRules()),
		ends(spec.GetExpireTime(), now),
	}
}
