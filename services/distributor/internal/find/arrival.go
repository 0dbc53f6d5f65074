// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxSlowest bounds the services that Times names.
const maxSlowest = 5

// commitBeginning is what a query may give as the beginning of a commit.
var commitBeginning = regexp.MustCompile(`^(sha256:)?[0-9a-f]{4,64}$`)

// Arrival is how long a commit took to arrive at services, as leat.fleet.v1.CommitArrival describes it.
type Arrival struct {
	Applied, Healthy Times
}

// Times summarizes the times of services.
type Times struct {
	// Count is how many services were measured, Pending how many the commit has not reached, and Unknown how
	// many it has reached in a time that is not known.
	Count, Pending, Unknown int
	// P50, P90, P99 and Max are zero if nothing was measured.
	P50, P90, P99, Max time.Duration
	// Slowest are the slowest services, the slowest first. Equally slow ones are in their order.
	Slowest []Slow
}

// Slow is the time of one service.
type Slow struct {
	Service *catalog.Service
	Took    time.Duration
}

// progress is how far a commit has come in a service.
type progress int

const (
	// isPending has not reached the service.
	isPending progress = iota
	// isUnknown has reached it in a time that is not known.
	isUnknown
	// isMeasured has reached it in a known time.
	isMeasured
)

// arrivals measures one commit at services, one after the other. It is for one goroutine.
type arrivals struct {
	commit           string // or its beginning
	applied, healthy timer
}

// add measures a service. One that neither has the commit nor is to have it does not count.
func (a *arrivals) add(row *Row) {
	has := row.Report != nil && slices.ContainsFunc(row.Report.AppliedCommits, a.is)
	isWanted := slices.ContainsFunc(row.Sources, func(r catalog.Resolution) bool { return r.Snapshot != nil && a.is(r.Snapshot.Commit) })
	if !has && !isWanted {
		return
	}
	applied, healthy := isPending, isPending
	var untilApplied, untilHealthy time.Duration
	if has {
		applied, untilApplied = a.untilApplied(row)
		healthy, untilHealthy = a.untilHealthy(row)
	}
	a.applied.add(row, applied, untilApplied)
	a.healthy.add(row, healthy, untilHealthy)
}

func (a *arrivals) is(commit string) bool { return strings.HasPrefix(commit, a.commit) }

// untilApplied returns the time from the hub's plan to the end of the apply.
func (a *arrivals) untilApplied(row *Row) (progress, time.Duration) {
	took := row.Durations
	if !a.isMeasuredBy(row) || took.Applying <= 0 {
		return isUnknown, 0
	}
	return isMeasured, took.Way + took.Applying
}

// untilHealthy returns the time from the hub's plan until everything was healthy for the first time.
func (a *arrivals) untilHealthy(row *Row) (progress, time.Duration) {
	took, isKnown := row.Durations, a.isMeasuredBy(row)
	switch {
	case isKnown && took.Healthy > 0:
		return isMeasured, took.Way + took.Healthy
	case isKnown, row.Report.Phase == catalog.PhaseProgressing:
		return isPending, 0
	}
	return isUnknown, 0
}

// isMeasuredBy reports whether the durations of a row are known and are about the commit.
func (a *arrivals) isMeasuredBy(row *Row) bool {
	tried, isAbout := row.Report.Tried()
	return isAbout && slices.ContainsFunc(tried.Commits, a.is) && row.Report.Phase != catalog.PhaseSyncing &&
		row.Report.Phase != catalog.PhaseFailed && row.Durations.IsWayKnown
}

// result returns the summary of all services.
func (a *arrivals) result() *Arrival {
	return &Arrival{Applied: a.applied.result(), Healthy: a.healthy.result()}
}

// timer collects the times of services.
type timer struct {
	times []time.Duration
	found Times
}

func (t *timer) add(row *Row, how progress, took time.Duration) {
	switch how {
	case isPending:
		t.found.Pending++
	case isUnknown:
		t.found.Unknown++
	case isMeasured:
		t.times = append(t.times, took)
		t.rank(Slow{Service: row.service(), Took: took})
	}
}

// rank puts a service among the slowest, if it belongs there.
func (t *timer) rank(slow Slow) {
	all := t.found.Slowest
	if len(all) == maxSlowest && slow.Took <= all[maxSlowest-1].Took {
		return
	}
	at, _ := slices.BinarySearchFunc(all, slow, func(a, b Slow) int { return cmp.Or(cmp.Compare(b.Took, a.Took), -1) })
	all = slices.Insert(all, at, slow)
	t.found.Slowest = all[:min(len(all), maxSlowest)]
}

// result returns the summary.
func (t *timer) result() Times {
	slices.Sort(t.times)
	found := t.found
	found.Count = len(t.times)
	found.P50, found.P90, found.P99, found.Max = percentile(t.times, 50), percentile(t.times, 90), percentile(t.times, 99), percentile(t.times, 100)
	return found
}

// percentile returns the first of the sorted times that at least this share of them does not exceed; zero of none.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
