// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// BenchmarkLook reads 200,000 services in 10,000 clusters, of which a policy covers all: each of
// them, and again after ten of them were reported on.
func BenchmarkLook(b *testing.B) {
	const clusters, services = 10_000, 20
	hub, l := fanout.NewHub[catalog.Key](0), &log{}
	v := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Plans: fanout.NewHub[string](0), Objects: hub, PollInterval: time.Second,
	})
	refresh := func(c catalog.Changes) {
		c.Revision = v.Catalog.Revision() + 1
		l.changes = []catalog.Changes{c}
		if err := v.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	all := catalog.Changes{Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "apps", UID: "uid-apps"}}}}
	all.Plain = []catalog.Plain{&catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves", UID: "waves"}}}
	for i := range clusters {
		all.Clusters = append(all.Clusters, cluster(clusterName(i)))
		for j := range services {
			s := service(objectname.ServicePath(fmt.Sprint("app-", j), clusterName(i)), clusterName(i), benchSource(j))
			s.UID = uidOf(i, j+1) // a UUID, as objects have
			all.Services = append(all.Services, s)
		}
	}
	refresh(all)
	announced, watch := hub.WatchAll(), fleet.Rollouts{View: v}.Watch()
	look := func(b *testing.B, isAll bool) {
		b.Helper()
		keys, lagged := announced.Take()
		if sight := watch.Look(keys, isAll || lagged); len(sight.Members["waves"]) != clusters*services {
			b.Fatalf("got %d services, want all", len(sight.Members["waves"]))
		}
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			look(b, true)
		}
	})
	b.Run("again", func(b *testing.B) {
		n := 0
		for b.Loop() {
			b.StopTimer()
			var reports catalog.Changes
			for range 10 {
				s := all.Services[n*7919%len(all.Services)]
				reports.Reports = append(reports.Reports, catalog.StoredReport{
					Service: s.Name, ServiceUID: s.UID, Report: &catalog.ServiceReport{ObservedSpecDigest: fmt.Sprint(n)},
				})
				n++
			}
			refresh(reports)
			b.StartTimer()
			look(b, false)
		}
	})
}
