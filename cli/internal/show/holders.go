// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// AccessHolders prints who could send a request to a cluster.
func AccessHolders(w io.Writer, format Format, style Style, res *fleetv1.ListAccessHoldersResponse) error {
	switch format {
	case JSON:
		return document.WriteJSONItem(w, res)
	case YAML:
		return document.WriteYAMLItem(w, res)
	default:
	}
	rows := newGrid(style, "WHO", "BY", "BINDING", "ROLE", "FROM", "UNTIL", "GROUPS THERE")
	return items(w, format, rows, res.GetHolders(), holderCells)
}

func holderCells(h *fleetv1.AccessHolder) []cell {
	reason := h.GetReason()
	who := cmp.Or(h.GetPerson(), "("+strings.Replace(h.GetSubject(), ":", " ", 1)+")")
	by := strings.TrimPrefix(h.GetSubject(), "user:")
	if at := h.GetSignedInAt(); at != nil {
		by += ", signed in " + localTime(at)
	}
	return []cell{
		plain(who), plain(by), plain(cmp.Or(reason.GetBinding(), "(leat:admins)")), role(reason.GetRole(), reason.GetRoleName()),
		plain(localTime(h.GetSince())), plain(localTime(h.GetUntil())), list(reason.GetGroups()),
	}
}

// localTime returns a time as people read it where they are; "" if it is not set.
func localTime(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return at.AsTime().Local().Format(time.DateTime)
}
