// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// TestTalliesAreTheCount changes services, reports and content at random: the counts of each
// cluster always equal the sum over its services.
func TestTalliesAreTheCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &log{}
		v := fleet.New(fleet.Params{
			Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
			Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
		})
		l.add(catalog.Changes{
			Clusters:     []*catalog.Cluster{cluster("c0"), cluster("c1")},
			Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "demo", UID: "uid-demo"}}},
		})
		if err := v.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		change := func(t *rapid.T, changes catalog.Changes) {
			l.add(changes)
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		names, paths := rapid.SampledFrom([]string{"a", "b", "shop.a", "shop.b"}), rapid.SampledFrom([]string{"x", "y"})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				s := service(names.Draw(t, "name"), clusterNames.Draw(t, "cluster"), catalog.Source{Repository: "demo", Path: paths.Draw(t, "path")})
				s.Spec.Options = &syncpolicy.Options{Namespace: rapid.SampledFrom([]string{"", "n1"}).Draw(t, "namespace")}
				change(t, catalog.Changes{Services: []*catalog.Service{s}})
			},
			"delete": func(t *rapid.T) {
				if s, ok := v.Catalog.Service(names.Draw(t, "name")); ok {
					change(t, catalog.Changes{Deleted: []catalog.Tombstone{{Key: s.Key(), UID: s.UID}}})
				}
			},
			"resolve": func(t *rapid.T) {
				next := good(contents.Draw(t, "content"))
				if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
					next.Problem = &catalog.Problem{Reason: reason.RefNotFound}
				}
				v.Resolved(t.Context(), catalog.Source{Repository: "demo", Path: paths.Draw(t, "path")}, next, nil)
			},
			"report": func(t *rapid.T) {
				s, ok := v.Catalog.Service(names.Draw(t, "name"))
				if !ok {
					return
				}
				p, _ := v.Plan(s.Spec.Cluster)
				entry, _ := p.Entry(s.Name)
				change(t, catalog.Changes{Reports: []catalog.StoredReport{{Service: s.Name, ServiceUID: s.UID, Entry: entry.Digest, Report: &catalog.ServiceReport{
					Phase:              rapid.SampledFrom([]catalog.Phase{catalog.PhaseHealthy, catalog.PhaseDegraded}).Draw(t, "phase"),
					ObservedSpecDigest: entry.SpecDigest, AppliedDigests: entry.Digests(),
				}}}})
			},
			"": func(t *rapid.T) {
				for _, cluster := range []string{"c0", "c1"} {
					want, got := map[fleet.Tally]fleet.Tally{}, map[fleet.Tally]fleet.Tally{}
					records, _ := v.Records.List(fleet.Query{Kind: catalog.KindService, Cluster: cluster, Limit: 10})
					for _, r := range records {
						s, _ := v.Catalog.Service(r.Object.Meta().Name)
						place := fleet.Tally{Project: objectname.Project(s.Name), Namespace: s.Spec.Wanted().NamespaceOrDefault()}
						tally := want[place]
						tally.Project, tally.Namespace = place.Project, place.Namespace
						tally.Total++
						if r.Service.Phase == catalog.PhaseHealthy {
							tally.Healthy++
						}
						want[place] = tally
						if one := v.Tallies.TallyOf(cluster, s.Name); one.Total != 1 || one.Healthy == 1 != (r.Service.Phase == catalog.PhaseHealthy) {
							t.Fatalf("service %s is counted as %+v, want its phase, %s", s.Name, one, r.Service.Phase)
						}
					}
					for _, tally := range v.Tallies.TalliesOf(cluster) {
						got[fleet.Tally{Project: tally.Project, Namespace: tally.Namespace}] = tally
					}
					if len(got) != len(want) {
						t.Fatalf("cluster %s: got %v, want %v", cluster, got, want)
					}
					for place, tally := range want {
						if got[place] != tally {
							t.Fatalf("cluster %s: got %v, want %v", cluster, got, want)
						}
					}
				}
			},
		})
	})
}
