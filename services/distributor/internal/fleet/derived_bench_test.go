// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// BenchmarkDerived holds 2 million derived services with the plans of all clusters, and measures what an
// edit costs until its plans have changed. It is for one iteration: go test -run '^$' -bench Derived
// -benchtime 1x.
func BenchmarkDerived(b *testing.B) {
	const clusters, globals = 10_000, 200
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := &log{}
		v := fleet.New(fleet.Params{
			Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
			Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
		})
		derive := sync.OnceFunc(func() { go func() { _ = fleet.NewDeriver(v).Run(b.Context()) }() })
		commit := func(c catalog.Changes) {
			b.Helper()
			c.Revision = v.Catalog.Revision() + 1
			l.changes = []catalog.Changes{c}
			if err := v.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			l.changes = nil
			derive() // as after a start, once the catalog is loaded
			settle(v)
		}
		planOf := func(i int) *plan.Plan {
			b.Helper()
			p, ok := v.Plan(clusterName(i))
			if !ok {
				b.Fatalf("no plan for cluster %d", i)
			}
			return p
		}
		changes := catalog.Changes{Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "apps", UID: "uid-apps"}}}}
		for i := range clusters {
			changes.Clusters = append(changes.Clusters, derivedCluster(i, "edge"))
		}
		for i := range globals {
			changes.Globals = append(changes.Globals, derivedGlobal(i, 1))
		}
		for i := range globals {
			v.Resolved(b.Context(), benchSource(i), good(fmt.Sprint("content ", i)), nil)
		}
		start := time.Now()
		commit(changes)
		b.ReportMetric(time.Since(start).Seconds(), "s/load")
		start = time.Now()
		for i := range clusters {
			planOf(i)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/plans")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")

		start = time.Now()
		commit(catalog.Changes{Clusters: []*catalog.Cluster{derivedCluster(7, "core")}})
		if got := planOf(7); len(got.Entries) != 0 {
			b.Fatalf("got %d services after the cluster left", len(got.Entries))
		}
		commit(catalog.Changes{Clusters: []*catalog.Cluster{derivedCluster(7, "edge")}})
		if got := planOf(7); len(got.Entries) != globals {
			b.Fatalf("got %d services after the cluster came back", len(got.Entries))
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds())/2, "ms/label")

		start = time.Now()
		commit(catalog.Changes{FleetChanges: catalog.FleetChanges{Globals: []*catalog.GlobalService{derivedGlobal(9, 2)}}})
		b.ReportMetric(time.Since(start).Seconds(), "s/template")
		entry, _ := planOf(clusters - 1).Entry("global-9")
		if got := entry.Apply().Namespace; got != "next-eu" {
			b.Fatalf("got namespace %q after the template changed", got)
		}

		start = time.Now()
		page, _ := v.Records.List(fleet.Query{Kind: catalog.KindService, Cluster: clusterName(3), Limit: 500})
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/list")
		if len(page) == 0 {
			b.Fatal("got no services")
		}
		runtime.KeepAlive(v)
	}
}

func derivedCluster(i int, tier string) *catalog.Cluster {
	name := clusterName(i)
	return &catalog.Cluster{Metadata: catalog.Metadata{
		Name: name, UID: fmt.Sprintf("UID%023d", i), Generation: 1, Labels: map[string]string{"tier": tier, "region": "eu"},
	}}
}

// derivedGlobal has a parameter in its namespace, a value of its own for each cluster in every tenth, and an
// override.
func derivedGlobal(i int, generation int64) *catalog.GlobalService {
	namespace := map[int64]string{1: "ns-${{ self.labels.region }}", 2: "next-${{ self.labels.region }}"}[generation]
	byTier := catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{Labels: &catalog.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}}}
	g := &catalog.GlobalService{
		Metadata: catalog.Metadata{Name: fmt.Sprintf("global-%d", i), UID: fmt.Sprintf("GLOBAL%020d", i), Generation: generation},
		Spec: catalog.GlobalServiceSpec{
			Clusters: byTier, Template: catalog.ServiceTemplate{Spec: catalog.ServiceSpec{
				Sources: []catalog.Source{benchSource(i)}, Options: &syncpolicy.Options{Namespace: namespace},
			}},
			Overrides: []catalog.ServiceOverride{{Name: "eu", Clusters: catalog.ClusterTarget{When: "self.labels.region == 'eu'"}, Patch: catalog.ServicePatch{DryRun: new(false)}}},
		},
	}
	if i%10 == 0 {
		g.Spec.Template.Spec.Config = &catalog.Config{Values: map[string]string{"NAME": "${{ self.name }}"}}
	}
	return g
}

// settle waits until nothing is left to be derived.
func settle(v *fleet.View) {
	for {
		if pending, _ := fleet.Unfinished(v.Catalog); pending == 0 {
			return
		}
		<-time.After(time.Millisecond)
	}
}

// BenchmarkWorstGlobalService applies a global service whose expressions cost as much as they may for each of
// 10,000 clusters, and measures how long it takes to list a page of clusters until the hub has given it up.
// It is for one iteration.
func BenchmarkWorstGlobalService(b *testing.B) {
	const clusters = 10_000
	for range b.N {
		l := &log{}
		v := fleet.New(fleet.Params{
			Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
			Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
		})
		go func() { _ = fleet.NewDeriver(v).Run(b.Context()) }()
		changes := catalog.Changes{Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "apps", UID: "uid-apps"}}}}
		for i := range clusters {
			changes.Clusters = append(changes.Clusters, derivedCluster(i, "edge"))
		}
		changes.Globals = []*catalog.GlobalService{derivedGlobal(0, 1), worstGlobal()}
		l.add(changes)
		applied := make(chan error, 1)
		begun := time.Now()
		go func() { applied <- v.Refresh(b.Context()) }()
		var took []time.Duration
		isApplied := false
		for isPending := true; isPending; {
			select {
			case err := <-applied:
				if err != nil {
					b.Fatal(err)
				}
				isApplied = true
				b.ReportMetric(time.Since(begun).Seconds(), "s/apply")
			case <-time.After(time.Millisecond):
			}
			at := time.Now()
			if page, _ := v.Records.List(fleet.Query{Kind: catalog.KindCluster, Limit: 100}); isApplied && len(page) != 100 {
				b.Fatalf("got %d clusters", len(page))
			}
			took = append(took, time.Since(at))
			_, late := fleet.Unfinished(v.Catalog)
			isPending = late == 0
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
		b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/longest")
		b.ReportMetric(time.Since(begun).Seconds(), "s/given-up")
		runtime.KeepAlive(v)
	}
}

// worstGlobal costs little less than derive.MaxCost for each cluster.
func worstGlobal() *catalog.GlobalService {
	g := derivedGlobal(0, 1)
	g.Name, g.UID = "worst", "WORST"
	g.Spec.Clusters = catalog.ClusterTarget{When: "lists.range(1900).all(a, a >= 0)"}
	values := map[string]string{}
	for i := range 12 {
		values[fmt.Sprintf("V%02d", i)] = fmt.Sprintf("${{ lists.range(40).all(a, lists.range(40).all(b, a + b >= %d)) ? self.name : '' }}", -i)
	}
	g.Spec.Template.Spec.Config = &catalog.Config{Values: values}
	return g
}
