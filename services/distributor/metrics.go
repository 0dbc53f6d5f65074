// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/leatdev/leat/internal/kit/waiting"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// measureChanges makes the histogram that the view's changes are recorded in, and what measures those that wait.
func measureChanges(tel *telemetry.Telemetry) (changed func(took time.Duration), line *waiting.Line, err error) {
	set := instrument.New(tel.Meter(scope))
	duration := set.Float64Histogram("leat.plan.compute.duration", "s",
		"Time from a change of the catalog or of content until the plans in memory had followed, its turn included.",
		.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
	line = new(waiting.Line)
	set.Float64ObservableGauge("leat.plan.waiting.age", "s",
		"For how long the change of the catalog or of content has waited for its turn, until plans follow it, that has waited longest; 0: none does.",
		instrument.Age(line.Age))
	return func(took time.Duration) { duration.Record(context.Background(), took.Seconds()) }, line, set.Err()
}

// measure makes the gauges that read the fleet and the state of bundles when they are collected.
func measure(tel *telemetry.Telemetry, view *fleet.View, loop *resolve.Loop, plans *fanout.Hub[string]) error {
	set := instrument.New(tel.Meter(scope))
	set.Int64ObservableGauge("leat.fleet.objects", "{object}", "Catalogued objects, by kind.",
		func(observe func(int64, ...attribute.KeyValue)) {
			totals := view.Catalog.Totals()
			for kind, n := range map[string]int{"cluster": totals.Clusters, "repository": totals.Repositories, "service": totals.Services} {
				observe(int64(n), attribute.String("kind", kind))
			}
		})
	set.Int64ObservableGauge("leat.fleet.clusters", "{cluster}", "Clusters by state: connected to any replica, away, or unenrolled, which never had an agent; each replica counts all of them.",
		func(observe func(int64, ...attribute.KeyValue)) {
			n := view.Presence.Count(view.Catalog)
			for state, n := range map[string]int{"connected": n.Connected, "away": n.Away, "unenrolled": n.Unenrolled} {
				observe(int64(n), attribute.String("state", state))
			}
		})
	set.Int64ObservableGauge("leat.fleet.services", "{service}", "Services that agents have reported on, by their latest phase; each replica counts all of them.",
		func(observe func(int64, ...attribute.KeyValue)) {
			for phase, n := range view.Records.Phases() {
				observe(int64(n), attribute.String("phase", strings.ToLower(string(phase))))
			}
		})
	set.Int64ObservableGauge("leat.globalservice.unfinished", "{globalservice}", "Global services that this replica has not derived, by state: pending, or late after they took too long.",
		func(observe func(int64, ...attribute.KeyValue)) {
			pending, late := fleet.Unfinished(view.Catalog)
			observe(int64(pending), attribute.String("state", "pending"))
			observe(int64(late), attribute.String("state", "late"))
		})
	bundles := func(value func(used, quota int64) int64) func(func(int64, ...attribute.KeyValue)) {
		return func(observe func(int64, ...attribute.KeyValue)) {
			view.BundleBooks.EachBoundedProject(func(project string, used, quota int64) {
				observe(value(used, quota), attribute.String("project", project))
			})
		}
	}
	set.Int64ObservableGauge("leat.project.bundle.usage", "By", "Bytes of the bundles of a project that count against its quota; of the first 1000 projects with one.",
		bundles(func(used, _ int64) int64 { return used }))
	set.Int64ObservableGauge("leat.project.bundle.limit", "By", "The quota that leat.project.bundle.usage counts against.",
		bundles(func(_, quota int64) int64 { return quota }))
	set.Float64ObservableGauge("leat.source.waiting.age", "s",
		"For how long the source was due to be asked for, at gitcache, that is due longest; 0: none is.", instrument.Age(loop.Lateness))
	set.Int64ObservableGauge("leat.agent.connected", "{agent}", "Agents that hold a plan stream of this replica open.",
		instrument.Value(func() int64 { return int64(view.Presence.Connected()) }))
	set.Int64ObservableGauge("leat.plan.watchers", "{watcher}", "Open plan streams of this replica.",
		instrument.Value(func() int64 { return int64(plans.Watchers()) }))
	return set.Err()
}
