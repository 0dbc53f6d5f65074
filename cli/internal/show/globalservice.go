// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/delivery"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// globalServiceKind shows global services.
var globalServiceKind = kind{
	columns: []string{"NAME", "CLUSTERS", "HEALTHY", "UNHEALTHY", "CONFLICTS", "FAILING", "FORBIDDEN", "OVERRIDES", "PROBLEM"},
	cells:   globalCells,
}

// globalCells sums up the objects derived from a global service.
func globalCells(object *fleetv1.Document, _ time.Time) []cell {
	g := object.GetGlobalService()
	status := g.GetStatus()
	return []cell{
		plain(g.GetMetadata().GetName()), plain(fmt.Sprint(status.GetClusters())), plain(fmt.Sprint(status.GetHealthy())),
		alarming(int64(status.GetUnhealthy())), alarming(int64(status.GetConflicts())), alarming(int64(status.GetFailing())),
		plain(fmt.Sprint(status.GetForbidden())),
		plain(fmt.Sprint(len(g.GetSpec().GetOverrides()))), problem(status.GetProblem()),
	}
}

// Members prints the clusters of a global service: why each is selected, which overrides it has, and the
// state of its service.
func Members(w io.Writer, format Format, style Style, now time.Time, members []*fleetv1.GlobalServiceMember) error {
	rows := newGrid(style, "CLUSTER", "MATCHED", "OVERRIDES", "STATE", "SYNCED", "REVISION", "SINCE", "PROBLEM")
	return items(w, format, rows, members, func(m *fleetv1.GlobalServiceMember) []cell {
		status := m.GetService().GetStatus()
		return []cell{
			plain(m.GetCluster()), plain(m.GetMatched()), plain(strings.Join(m.GetOverrides(), ",")), stateCell(status.GetPhase()), yes(status.GetSynced()),
			plain(delivery.Versions(status)), ago(status.GetReport().GetPhaseSince(), now), problem(cmp.Or(m.GetProblem(), status.GetProblem())),
		}
	})
}
