// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// trustRuleKind shows trust rules.
var trustRuleKind = kind{
	columns: []string{"NAME", "ISSUER", "AUDIENCE", "USERS", "GROUPS", "REQUIRES"},
	cells:   trustRuleCells,
}

// trustRuleCells shows whom a rule lets in, and as whom.
func trustRuleCells(object *fleetv1.Document, _ time.Time) []cell {
	r := object.GetTrustRule()
	spec := r.GetSpec()
	var conditions []string
	for _, requirement := range spec.GetRequire() {
		conditions = append(conditions, requirement.GetClaim()+"="+strings.Join(requirement.GetValues(), "|"))
	}
	if spec.GetExpression() != "" {
		conditions = append(conditions, spec.GetExpression())
	}
	name := r.GetMetadata().GetName()
	return []cell{
		plain(name), plain(spec.GetIssuer()), plain(spec.GetAudience()), plain(name + ":" + cmp.Or(spec.GetUser(), "{sub}")), list(spec.GetGroups()),
		plain(strings.Join(conditions, ", ")),
	}
}
