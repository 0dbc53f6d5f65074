// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// benchClusters and benchServices are the size of the fleet of BenchmarkMemory.
const (
	benchClusters = 1000
	benchServices = 20
)

// BenchmarkMemory reports the heap that a cluster with 20 healthy services takes: in the catalog,
// with the reports of its services, with its plan, and with the plans that three commits to one of
// its folders replaced. As in most fleets, all clusters use the same folders.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		empty := heap.Live()
		v, l := newBenchFleet(b)
		report := func(what string) {
			b.ReportMetric(float64(heap.Live()-empty)/benchClusters, what+"-B/cluster")
		}
		report("catalog")
		readPlans(b, v)
		report("plans")
		for i := range 3 {
			v.Resolved(b.Context(), benchSource(0), good(fmt.Sprint("commit ", i)), nil)
			readPlans(b, v)
		}
		report("replaced-plans")
		before := heap.Live()
		index := find.NewIndex(fleet.Finding{View: v})
		index.Snapshot(catalog.KindService)
		b.ReportMetric(float64(heap.Live()-before)/(benchClusters*benchServices), "index-B/service")
		runtime.KeepAlive(v)
		runtime.KeepAlive(index)
		runtime.KeepAlive(l)
	}
}

// BenchmarkCommit commits to a folder that 1000 clusters use, each of which then reads its plan. It
// also reports how long another caller, whose token is looked up meanwhile, waits at most.
func BenchmarkCommit(b *testing.B) {
	v, _ := newBenchFleet(b)
	readPlans(b, v)
	var longest time.Duration
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			begun := time.Now()
			v.Catalog.Cluster("cluster-00000")
			longest = max(longest, time.Since(begun))
		}
	})
	n := 0
	for b.Loop() {
		n++
		v.Resolved(b.Context(), benchSource(0), good(fmt.Sprint("commit ", n)), nil)
		readPlans(b, v)
	}
	close(done)
	looking.Wait()
	b.ReportMetric(float64(longest.Microseconds()), "longest-wait-us")
}

func readPlans(b *testing.B, v *fleet.View) {
	b.Helper()
	for c := range benchClusters {
		if _, ok := v.Plan(clusterName(c)); !ok {
			b.Fatalf("cluster %d has no plan", c)
		}
	}
}

func benchSource(i int) catalog.Source {
	return catalog.Source{Repository: "apps", Path: fmt.Sprintf("app-%02d", i)}
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%05d", i) }

// newBenchFleet returns a view that has followed a store, which makes every string and every value
// of its own.
func newBenchFleet(b *testing.B) (*fleet.View, *log) {
	b.Helper()
	l := &log{}
	v := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	refresh := func(c catalog.Changes) {
		c.Revision = v.Catalog.Revision() + 1
		l.changes = []catalog.Changes{c}
		if err := v.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
		l.changes = nil
	}
	refresh(catalog.Changes{Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "apps", UID: "uid-apps"}}}})
	for i := range benchServices {
		v.Resolved(b.Context(), benchSource(i), good(fmt.Sprint("content ", i)), nil)
	}
	spec := digest.FromBytes([]byte("spec")).String()
	for c := range benchClusters {
		name := clusterName(c)
		changes := catalog.Changes{Clusters: []*catalog.Cluster{{
			Metadata: catalog.Metadata{Name: name, UID: uidOf(c, 0), Generation: 1},
			Agent: catalog.Agent{
				PublicKey: make([]byte, 32), KeyGeneration: 1, Instance: uidOf(c, 99), PlanVersion: strings.Clone(spec),
				Report: catalog.ClusterReport{AgentVersion: strings.Clone("v0.5.0"), KubernetesVersion: strings.Clone("v1.36.3"), Nodes: 3},
			},
		}}}
		for i := range benchServices {
			service := objectname.ServicePath(fmt.Sprintf("app-%02d", i), name)
			changes.Services = append(changes.Services, &catalog.Service{
				Metadata: catalog.Metadata{Name: service, UID: uidOf(c, i+1), Generation: 1},
				Spec:     catalog.ServiceSpec{Cluster: strings.Clone(name), Sources: []catalog.Source{benchSource(i)}},
			})
			changes.Reports = append(changes.Reports, catalog.StoredReport{
				Service: strings.Clone(service), ServiceUID: uidOf(c, i+1), Entry: strings.Clone(spec), ObservedGeneration: 1,
				Report: &catalog.ServiceReport{
					Phase: catalog.Phase(strings.Clone(string(catalog.PhaseHealthy))), ObservedSpecDigest: strings.Clone(spec),
					AppliedDigests: []string{strings.Clone(spec)}, AppliedCommits: []string{strings.Clone(spec[:40])},
					Counts: catalog.Counts{Total: 10, Healthy: 10}, AppliedAt: time.Unix(1, 0), ApplyDuration: time.Second, PhaseSince: time.Unix(1, 0),
					ObservedDigests: []string{strings.Clone(spec)}, ObservedCommits: []string{strings.Clone(spec[:40])},
				},
			})
		}
		refresh(changes)
	}
	return v, l
}

func uidOf(cluster, of int) string { return fmt.Sprintf("01234567-89ab-cdef-%04x-%012x", of, cluster) }
