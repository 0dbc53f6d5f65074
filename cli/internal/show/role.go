// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// roleKind shows roles.
var roleKind = kind{
	columns: []string{"NAME", "PERMISSIONS", "IN CLUSTERS", "DESCRIPTION"},
	cells:   roleCells,
}

func roleCells(object *fleetv1.Document, _ time.Time) []cell {
	r := object.GetRole()
	spec := r.GetSpec()
	var parts []string
	for _, p := range spec.GetPermissions() {
		parts = append(parts, strings.Join(p.GetVerbs(), ",")+" of "+strings.Join(p.GetResources(), ","))
	}
	return []cell{
		plain(r.GetMetadata().GetName()), plain(strings.Join(parts, "; ")), role(spec.GetClusterRole(), ""), plain(spec.GetDescription()),
	}
}
