// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
)

// repositoryKind shows repositories.
var repositoryKind = kind{
	columns: []string{"NAME", "PHASE", "REFS", "CHECKED", "URL", "MESSAGE"},
	cells:   repositoryCells,
	detail:  notices,
}

func repositoryCells(object *fleetv1.Document, now time.Time) []cell {
	r := object.GetRepository()
	status := r.GetStatus()
	return []cell{
		plain(r.GetMetadata().GetName()), stateCell(status.GetPhase()), plain(fmt.Sprint(status.GetRefCount())),
		ago(status.GetFreshAt(), now), plain(r.GetSpec().GetUrl()), worry(status),
	}
}

// worry shows the problem of a repository or, without one, how many notices there are to read.
func worry(status *gitcachev1.RepositoryState) cell {
	switch n := len(status.GetNotices()); {
	case status.GetProblem() != nil || n == 0:
		return problem(status.GetProblem())
	case n == 1:
		return cell{"1 notice", faint}
	default:
		return cell{fmt.Sprintf("%d notices", n), faint}
	}
}

// notices returns what people should know of a repository although nothing has failed.
func notices(style Style, _ time.Time, object *fleetv1.Document) string {
	var out strings.Builder
	for _, notice := range object.GetRepository().GetStatus().GetNotices() {
		fmt.Fprintf(&out, "\n%s %s\n", style.Warn("Notice:"), oneLine(notice))
	}
	return out.String()
}
