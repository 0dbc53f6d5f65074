// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/cli/internal/delivery"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Revisions prints a service's history in the given format, with times relative to now.
func Revisions(w io.Writer, format Format, style Style, now time.Time, revisions []*fleetv1.Revision) error {
	rows := newGrid(style, "REVISION", "OUTCOME", "VERSION", "PLANNED", "DOWNLOAD", "RENDER", "APPLY", "HEALTHY AFTER", "MESSAGE")
	return items(w, format, rows, revisions, func(r *fleetv1.Revision) []cell {
		timings := r.GetTimings()
		return []cell{
			plain(fmt.Sprint(r.GetNumber())), outcome(r.GetOutcome()), plain(delivery.Quote(r.GetCommits(), r.GetVersions())), ago(r.GetPlannedAt(), now),
			took(timings.GetDownload()), rendered(timings), took(timings.GetApply()), took(timings.GetHealthy()), problem(r.GetProblem()),
		}
	})
}

// ServiceCommits prints who changed what a service is made of, with times relative to now.
func ServiceCommits(w io.Writer, format Format, style Style, now time.Time, commits []*fleetv1.ServiceCommit) error {
	rows := newGrid(style, "COMMIT", "REPOSITORY", "AUTHOR", "COMMITTED", "SUBJECT")
	return items(w, format, rows, commits, func(c *fleetv1.ServiceCommit) []cell {
		return []cell{
			plain(delivery.Quote([]string{c.GetId()}, nil)), plain(c.GetRepository()), plain(c.GetAuthorName()), ago(c.GetCommitTime(), now),
			plain(c.GetSubject()),
		}
	})
}

func outcome(o fleetv1.RevisionOutcome) cell {
	if o == fleetv1.RevisionOutcome_REVISION_OUTCOME_UNSPECIFIED {
		return cell{"On its way", yellow}
	}
	return stateCell(o)
}

// noticeable is the shortest wait that is shown.
const noticeable = 100 * time.Millisecond

// rendered shows the time to render and, beside it, how long that waited for its turn, if anybody
// would notice.
func rendered(timings *distributorv1.Timings) cell {
	c := took(timings.GetRender())
	if wait := timings.GetRenderWait(); wait.AsDuration() >= noticeable {
		c.text += " +" + took(wait).text + " wait"
	}
	return c
}

// took shows a duration to about three digits.
func took(d *durationpb.Duration) cell {
	if d == nil {
		return plain("")
	}
	precision := time.Second
	switch length := d.AsDuration(); {
	case length < time.Second:
		precision = time.Millisecond
	case length < 10*time.Second:
		precision = 10 * time.Millisecond
	case length < time.Minute:
		precision = 100 * time.Millisecond
	}
	return plain(d.AsDuration().Round(precision).String())
}
