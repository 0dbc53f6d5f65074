// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const arriving = "abcdef01"

// arrived returns a service that has the commit: its plan took a second, the apply and health as long as given.
func arrived(name string, applied, healthy time.Duration) *find.Row {
	row := service(name, "one", catalog.PhaseHealthy)
	row.Report = &catalog.ServiceReport{
		Phase: catalog.PhaseHealthy, AppliedCommits: []string{arriving}, AppliedDigests: []string{"sha256:1"},
		PlannedAt: now, ApplyDuration: applied, Timings: catalog.Timings{ArrivedAt: now.Add(time.Second), Healthy: healthy},
	}
	return row
}

// changed returns the row after a change of its report.
func changed(row *find.Row, change func(*catalog.ServiceReport)) *find.Row {
	change(row.Report)
	return row
}

// measure returns how long the commit took to arrive at the services.
func measure(t testing.TB, rows ...*find.Row) find.Arrival {
	t.Helper()
	f := newFleet(0)
	f.put(rows...)
	q := mustQuery(t, find.Params{Kind: catalog.KindService, ArrivalOf: arriving[:6]})
	result, err := q.Run(t.Context(), find.NewIndex(f).Snapshot(catalog.KindService), everything(), now)
	if err != nil {
		t.Fatal(err)
	}
	return *result.Arrival
}

func TestArrivalOfServices(t *testing.T) {
	t.Parallel()
	measured := func() *find.Row { return arrived("a", 2*time.Second, 5*time.Second) }
	for name, c := range map[string]struct {
		row              *find.Row
		applied, healthy string
	}{
		"healthy": {measured(), "3s", "6s"},
		"a clock that is behind": {changed(measured(), func(r *catalog.ServiceReport) {
			r.Timings.ArrivedAt = now.Add(-time.Hour)
		}), "2s", "5s"},
		"not healthy yet": {changed(measured(), func(r *catalog.ServiceReport) {
			r.Phase, r.Timings.Healthy = catalog.PhaseProgressing, 0
		}), "3s", "pending"},
		"unhealthy since": {changed(measured(), func(r *catalog.ServiceReport) { r.Phase = catalog.PhaseDegraded }), "3s", "6s"},
		"not applied yet": {service("a", "one", catalog.PhasePending), "pending", "pending"},
		"never reported": {func() *find.Row {
			row := service("a", "one", catalog.PhasePending)
			row.Report = nil
			return row
		}(), "pending", "pending"},
		"the agent has started again": {changed(measured(), func(r *catalog.ServiceReport) {
			r.PlannedAt, r.Timings = time.Time{}, catalog.Timings{}
		}), "unknown", "unknown"},
		"started again, and in progress": {changed(measured(), func(r *catalog.ServiceReport) {
			r.Phase, r.PlannedAt, r.Timings = catalog.PhaseProgressing, time.Time{}, catalog.Timings{}
		}), "unknown", "pending"},
		"on the way to the next": {changed(measured(), func(r *catalog.ServiceReport) {
			r.Phase, r.ObservedCommits, r.ObservedDigests = catalog.PhaseSyncing, []string{"99999999"}, []string{"sha256:2"}
		}), "unknown", "unknown"},
		"the next has failed": {changed(measured(), func(r *catalog.ServiceReport) {
			r.Phase, r.ObservedCommits, r.ObservedDigests = catalog.PhaseFailed, []string{"99999999"}, []string{"sha256:2"}
		}), "unknown", "unknown"},
		"paused": {changed(measured(), func(r *catalog.ServiceReport) { r.Phase = catalog.PhasePaused }), "unknown", "unknown"},
		"another commit": {func() *find.Row {
			row := measured()
			row.Sources, row.Report.AppliedCommits = nil, []string{"12345678"}
			return row
		}(), "none", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := measure(t, c.row)
			if applied, healthy := spell(got.Applied), spell(got.Healthy); applied != c.applied || healthy != c.healthy {
				t.Errorf("got %s until applied and %s until healthy, want %s and %s", applied, healthy, c.applied, c.healthy)
			}
		})
	}
}

// spell returns the time of the one service.
func spell(times find.Times) string {
	switch [3]int{times.Count, times.Pending, times.Unknown} {
	case [3]int{1, 0, 0}:
		return times.Max.String()
	case [3]int{0, 1, 0}:
		return "pending"
	case [3]int{0, 0, 1}:
		return "unknown"
	case [3]int{}:
		return "none"
	}
	return fmt.Sprint(times)
}

// TestPercentilesAreThoseOfTheSortedList compares with the definition: the first time, by time, that at least the share
// of all does not exceed.
func TestPercentilesAreThoseOfTheSortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var rows []*find.Row
		var sorted []time.Duration
		for i, ms := range rapid.SliceOfN(rapid.IntRange(1, 50), 0, 250).Draw(rt, "times") {
			took := time.Duration(ms) * time.Millisecond
			sorted = append(sorted, took)
			rows = append(rows, arrived(fmt.Sprintf("s%03d", i), took-time.Microsecond, took))
			rows[i].Report.Timings.ArrivedAt = now
		}
		slices.Sort(sorted)
		got := measure(t, rows...).Healthy
		if got.Count != len(sorted) {
			rt.Fatalf("%d were measured, want %d", got.Count, len(sorted))
		}
		for percent, is := range map[int]time.Duration{50: got.P50, 90: got.P90, 99: got.P99, 100: got.Max} {
			var want time.Duration
			for i, took := range sorted {
				if 100*(i+1) >= percent*len(sorted) {
					want = took
					break
				}
			}
			if is != want {
				rt.Errorf("the %d %% are %v, want %v", percent, is, want)
			}
		}
		slices.SortStableFunc(rows, func(a, b *find.Row) int { return int(b.Report.Timings.Healthy - a.Report.Timings.Healthy) })
		if len(got.Slowest) != min(5, len(rows)) {
			rt.Fatalf("%d are the slowest", len(got.Slowest))
		}
		for i, slow := range got.Slowest {
			if slow.Service != rows[i].Object || slow.Took != rows[i].Report.Timings.Healthy {
				rt.Errorf("number %d is %s with %v, want %s", i, slow.Service.Name, slow.Took, rows[i].Object.Meta().Name)
			}
		}
	})
}

func TestArrivalIsAskedForByACommitOfServices(t *testing.T) {
	t.Parallel()
	for _, p := range []find.Params{
		{Kind: catalog.KindCluster, ArrivalOf: arriving},
		{Kind: catalog.KindService, ArrivalOf: "abc"},
		{Kind: catalog.KindService, ArrivalOf: "main"},
	} {
		_, err := find.NewQuery(p)
		if refused, ok := errors.AsType[*fielderr.Error](err); !ok || refused.Path != "arrival_of" {
			t.Errorf("%v: %v", p, err)
		}
	}
	f := newFleet(0)
	f.put(arrived("a", time.Second, time.Second))
	result, err := mustQuery(t, find.Params{Kind: catalog.KindService}).Run(t.Context(), find.NewIndex(f).Snapshot(catalog.KindService), everything(), now)
	if err != nil || result.Arrival != nil {
		t.Errorf("a query that does not ask has %v, %v", result.Arrival, err)
	}
}

// BenchmarkArrival measures a commit at 200,000 services.
func BenchmarkArrival(b *testing.B) {
	f := newFleet(0)
	for i := range 200_000 {
		took := time.Duration(i*7919%100_000) * time.Millisecond
		f.put(arrived(fmt.Sprintf("s%06d", i), took+1, 2*took+1))
	}
	index := find.NewIndex(f)
	q := mustQuery(b, find.Params{Kind: catalog.KindService, Filter: "repository=shop.demo commit=" + arriving, ArrivalOf: arriving, Size: 1})
	for b.Loop() {
		if _, err := q.Run(b.Context(), index.Snapshot(catalog.KindService), everything(), now); err != nil {
			b.Fatal(err)
		}
	}
}
