// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Sessions prints people's sessions.
func Sessions(w io.Writer, format Format, style Style, now time.Time, sessions []*fleetv1.Session) error {
	return items(w, format, newGrid(style, "ID", "PERSON", "PROVIDER", "HELD BY", "LAST USED", "ENDS"), sessions, func(s *fleetv1.Session) []cell {
		return []cell{
			plain(s.GetId()), plain(s.GetPerson()), plain(s.GetProvider()), plain(strings.ToLower(document.EnumName(s.GetClient()))),
			ago(s.GetLastUsedTime(), now), ends(s.GetExpireTime(), now),
		}
	})
}
