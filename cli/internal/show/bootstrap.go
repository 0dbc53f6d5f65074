// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// BootstrapTokens prints bootstrap tokens.
func BootstrapTokens(w io.Writer, format Format, style Style, now time.Time, tokens []*fleetv1.BootstrapToken) error {
	rows := newGrid(style, "ID", "PROJECT", "PREFIX", "LABELS", "USES", "LAST USED", "LAST CLUSTER", "MADE BY", "ENDS")
	return items(w, format, rows, tokens, func(t *fleetv1.BootstrapToken) []cell {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(t.GetLabels())) {
			labels = append(labels, key+"="+t.GetLabels()[key])
		}
		return []cell{
			plain(t.GetId()), plain(t.GetProject()), plain(t.GetNamePrefix()), list(labels), plain(fmt.Sprintf("%d/%d", t.GetUses(), t.GetMaxUses())),
			ago(t.GetLastUsedTime(), now), plain(t.GetLastCluster()), plain(t.GetCreatedBy()), ends(t.GetExpireTime(), now),
		}
	})
}
