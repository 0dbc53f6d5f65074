// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Tokens prints API tokens.
func Tokens(w io.Writer, format Format, style Style, now time.Time, tokens []*fleetv1.Token) error {
	return items(w, format, newGrid(style, "ID", "USER", "LABEL", "LIMIT", "CREATED", "LAST USED", "FROM", "ENDS"), tokens, func(t *fleetv1.Token) []cell {
		return []cell{
			plain(t.GetId()), plain(t.GetUser()), plain(t.GetLabel()), plain(Limit(t.GetLimit())), ago(t.GetCreateTime(), now),
			ago(t.GetLastUsedTime(), now), plain(t.GetLastUsedAddress()), ends(t.GetExpireTime(), now),
		}
	})
}

// Limit describes what a token is limited to; empty for no limit.
func Limit(l *fleetv1.TokenLimit) string {
	if l == nil {
		return ""
	}
	where := scope(&fleetv1.AccessBindingSpec{
		Hub: l.GetHub(), Projects: l.GetProjects(), Clusters: l.GetClusters(), Services: l.GetServices(), Repositories: l.GetRepositories(),
	})
	what := l.GetRoleName()
	if l.GetRole() != typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED {
		what = document.EnumName(l.GetRole())
	}
	return strings.TrimSuffix(what+" in "+where, " in ")
}
