// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestMilestones follows a service through reports of an agent whose own clock is wrong.
func TestMilestones(t *testing.T) {
	t.Parallel()
	planned := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wrong := planned.AddDate(-30, 0, 0)
	report := func(phase catalog.Phase, content string, since time.Time) *catalog.ServiceReport {
		r := &catalog.ServiceReport{Phase: phase, PlannedAt: since, ObservedDigests: []string{content}, AppliedDigests: []string{content}}
		if phase != catalog.PhaseSyncing && phase != catalog.PhaseFailed {
			r.AppliedAt, r.PhaseSince = wrong, wrong
		}
		return r
	}
	const day = 24 * time.Hour
	traced := report(catalog.PhaseHealthy, "eight", planned)
	traced.Trigger = &catalog.Trigger{Traceparent: "the commit's"}
	var latest catalog.Revision
	for _, step := range []struct {
		name   string
		after  time.Duration
		report *catalog.ServiceReport
		want   []catalog.Milestone
	}{
		{"begins", time.Second, report(catalog.PhaseSyncing, "one", planned), nil},
		{"is applied", 3 * time.Second, report(catalog.PhaseProgressing, "one", planned), []catalog.Milestone{{Stage: "applied", Took: 3 * time.Second}}},
		{"says so again", 4 * time.Second, report(catalog.PhaseProgressing, "one", planned), nil},
		{"fails for a while", 5 * time.Second, report(catalog.PhaseDegraded, "one", planned), nil},
		{"is healthy", 9 * time.Second, report(catalog.PhaseHealthy, "one", planned), []catalog.Milestone{{Stage: "healthy", Took: 9 * time.Second, Outcome: "HEALTHY"}}},
		{"breaks later", time.Minute, report(catalog.PhaseDegraded, "one", planned), nil},
		{"is healthy again", time.Minute, report(catalog.PhaseHealthy, "one", planned), nil},
		{"follows a healthy one, in one report", time.Minute, report(catalog.PhaseHealthy, "two", planned), []catalog.Milestone{
			{Stage: "applied", Took: time.Minute}, {Stage: "healthy", Took: time.Minute, Outcome: "HEALTHY"},
		}},
		{"fails", time.Minute, report(catalog.PhaseFailed, "three", planned), nil},
		{"is superseded after a failure", time.Minute, report(catalog.PhaseSyncing, "four", planned), []catalog.Milestone{{Outcome: "FAILED"}}},
		{"is superseded under way", time.Minute, report(catalog.PhaseSyncing, "five", planned), []catalog.Milestone{{Outcome: "SUPERSEDED"}}},
		{"was planned before the hub existed", time.Minute, report(catalog.PhaseProgressing, "six", wrong), []catalog.Milestone{
			{Outcome: "SUPERSEDED"}, {Stage: "applied", Took: day},
		}},
		{"was planned in the future", time.Minute, report(catalog.PhaseHealthy, "seven", planned.Add(day)), []catalog.Milestone{
			{Outcome: "SUPERSEDED"}, {Stage: "applied"}, {Stage: "healthy", Outcome: "HEALTHY"},
		}},
		{"was traced", time.Minute, traced, []catalog.Milestone{
			{Stage: "applied", Took: time.Minute, Trigger: traced.Trigger}, {Stage: "healthy", Took: time.Minute, Outcome: "HEALTHY", Trigger: traced.Trigger},
		}},
	} {
		at := planned.Add(step.after)
		next := latest.Advance(step.report, at)
		if diff := cmp.Diff(step.want, catalog.Milestones(latest, next, at, step.report.Trigger)); diff != "" {
			t.Errorf("%s: milestones differ (-want +got):\n%s", step.name, diff)
		}
		if len(next) > 0 {
			latest = next[len(next)-1]
		}
	}
}
