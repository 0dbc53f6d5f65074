// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// userKind shows users.
var userKind = kind{
	columns: []string{"NAME", "GROUPS", "DESCRIPTION"},
	cells:   userCells,
}

func userCells(object *fleetv1.Document, _ time.Time) []cell {
	u := object.GetUser()
	return []cell{plain(u.GetMetadata().GetName()), list(u.GetSpec().GetGroups()), plain(u.GetSpec().GetDescription())}
}
