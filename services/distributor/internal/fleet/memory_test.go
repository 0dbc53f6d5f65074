// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// benchClusters and benchServices are the size of the fleet of BenchmarkMemory.
const (
	benchClusters = 1000
	benchServices = 20
)

// BenchmarkMemory reports the heap that a cluster with 20 healthy services takes: in the catalog, with the reports of its
// services, with its plan, and with the plans that three commits to one of its folders replaced. As in most fleets, all
// clusters use the same folders.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		empty := heap()
		l := &log{}
		v := fleet.New(fleet.Params{
			Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
			Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
		})
		addBenchFleet(b, v, l)
		report := func(what string) {
			b.ReportMetric(float64(heap()-empty)/benchClusters, what+"-B/cluster")
		}
		report("catalog")
		var names []string
		for c := range benchClusters {
			names = append(names, fmt.Sprintf("cluster-%05d", c))
		}
		readAll := func() {
			for _, name := range names {
				if _, ok := v.Plan(name); !ok {
					b.Fatalf("cluster %s has no plan", name)
				}
			}
		}
		readAll()
		report("plans")
		for i := range 3 {
			v.Resolved(b.Context(), benchSource(0), good(fmt.Sprint("commit ", i)), "")
			readAll()
		}
		report("replaced-plans")
		runtime.KeepAlive(v)
		runtime.KeepAlive(l)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one found to be finalised
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func benchSource(i int) catalog.Source {
	return catalog.Source{Repository: "apps", Path: fmt.Sprintf("app-%02d", i)}
}

// addBenchFleet has the view follow a store, which makes every string and every value of its own.
func addBenchFleet(b *testing.B, v *fleet.View, l *log) {
	b.Helper()
	refresh := func(c catalog.Changes) {
		c.Revision = v.Revision() + 1
		l.changes = []catalog.Changes{c}
		if err := v.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
		l.changes = nil
	}
	refresh(catalog.Changes{Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "apps", UID: "uid-apps"}}}})
	for i := range benchServices {
		v.Resolved(b.Context(), benchSource(i), good(fmt.Sprint("content ", i)), "")
	}
	spec := digest.FromBytes([]byte("spec")).String()
	for c := range benchClusters {
		name := fmt.Sprintf("cluster-%05d", c)
		changes := catalog.Changes{Clusters: []*catalog.Cluster{{
			Metadata: catalog.Metadata{Name: name, UID: uidOf(c, 0), Generation: 1},
			Agent: catalog.Agent{
				PublicKey: make([]byte, 32), KeyGeneration: 1, Instance: uidOf(c, 99), PlanVersion: strings.Clone(spec),
				Report: catalog.ClusterReport{AgentVersion: strings.Clone("v0.5.0"), KubernetesVersion: strings.Clone("v1.36.3"), Nodes: 3},
			},
		}}}
		for i := range benchServices {
			service := fmt.Sprintf("%s-app-%02d", name, i)
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
}

func uidOf(cluster, of int) string { return fmt.Sprintf("01234567-89ab-cdef-%04x-%012x", of, cluster) }
