// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/intake"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

const (
	benchAgents   = 64
	benchServices = 20
)

// BenchmarkReports has 64 agents report at once, each a change of one of 20 services, until it is
// durable and in the replica's view: through the intake, and beside it each in a transaction of its
// own.
func BenchmarkReports(b *testing.B) {
	server := postgrestest.New(b)
	for name, url := range map[string]string{
		"sqlite": "sqlite://" + filepath.ToSlash(filepath.Join(b.TempDir(), "leat.db")), "postgres": server.Database(b),
	} {
		store, view, agents := benchFleet(b, url, benchAgents, benchServices)
		queue := intake.New(intake.Params{Store: store, Stored: func(ctx context.Context) { _ = view.Refresh(ctx) }})
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() { ended <- queue.Run(ctx) }()
		b.Run(name+"/together", func(b *testing.B) {
			benchReports(b, agents, func(ctx context.Context, report catalog.AgentReport) error {
				_, err := queue.Take(ctx, report)
				return err
			})
		})
		b.Run(name+"/each alone", func(b *testing.B) {
			benchReports(b, agents, func(ctx context.Context, report catalog.AgentReport) error {
				if _, err := store.SaveReports(ctx, []catalog.AgentReport{report}); err != nil {
					return err
				}
				return view.Refresh(ctx)
			})
		})
		cancel()
		<-ended
	}
}

// BenchmarkOverviews has 1000 agents tell of a change of their clusters, again as soon as it is
// durable and in the replica's view.
func BenchmarkOverviews(b *testing.B) {
	const clusters = 1000
	server := postgrestest.New(b)
	for name, url := range map[string]string{
		"sqlite": "sqlite://" + filepath.ToSlash(filepath.Join(b.TempDir(), "leat.db")), "postgres": server.Database(b),
	} {
		store, view, agents := benchFleet(b, url, clusters, 1)
		var transactions atomic.Int64
		queue := intake.New(intake.Params{Store: store, Stored: func(ctx context.Context) {
			transactions.Add(1)
			_ = view.Refresh(ctx)
		}})
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() { ended <- queue.Run(ctx) }()
		b.Run(name, func(b *testing.B) {
			transactions.Store(0)
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for _, agent := range agents {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						report := agent.next()
						report.Services, report.Cluster = nil, benchOverview(int32(report.Sequence))
						if _, err := queue.Take(b.Context(), report); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reports/s")
			b.ReportMetric(float64(b.N)/float64(transactions.Load()), "reports/transaction")
		})
		cancel()
		<-ended
	}
}

// benchOverview is of a cluster in which pods come and go, and of ten things that it warns of.
func benchOverview(n int32) *catalog.ClusterReport {
	warnings := &catalog.WarningsOverview{Count: n}
	for i := range 10 {
		warnings.Latest = append(warnings.Latest, catalog.ClusterWarning{
			Reason: "FailedScheduling", Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i), Times: n, LastSeenAt: time.Unix(int64(n), 0).UTC(),
			Message: "0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, 2 Insufficient memory.",
		})
	}
	return &catalog.ClusterReport{AgentVersion: "v0.5.0", KubernetesVersion: "v1.36.3", Nodes: 3, Overview: catalog.ClusterOverview{
		Pods: &catalog.PodsOverview{Running: n}, Warnings: warnings,
	}}
}

// benchAgent is one cluster; each is used by one goroutine at a time.
type benchAgent struct {
	uid      string
	services []string
	sequence uint64
}

func benchFleet(b *testing.B, url string, clusters, services int) (*sqlstore.Store, *fleet.View, []*benchAgent) {
	b.Helper()
	store, err := sqlstore.Open(b.Context(), url, []byte(hubkeys.Secret(identity.ServiceDistributor)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	objects := []catalog.Object{&catalog.Repository{Metadata: catalog.Metadata{Name: "demo"}, Spec: catalog.RepositorySpec{Definition: upstream.Definition{URL: "https://git.example/demo"}}}}
	for c := range clusters {
		cluster := fmt.Sprint("cluster-", c)
		objects = append(objects, &catalog.Cluster{Metadata: catalog.Metadata{Name: cluster}})
		for s := range services {
			objects = append(objects, &catalog.Service{
				Metadata: catalog.Metadata{Name: objectname.ServicePath(fmt.Sprintf("app-%d", s), cluster)},
				Spec:     catalog.ServiceSpec{Cluster: cluster, Sources: []catalog.Source{{Repository: "demo", Path: "app"}}},
			})
		}
	}
	for some := range slices.Chunk(objects, 1000) {
		if _, err := catalog.NewEditor(store).Apply(b.Context(), some, false); err != nil {
			b.Fatal(err)
		}
	}
	view := fleet.New(fleet.Params{
		Store: store, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	if err := view.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	changes, err := store.Changes(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	agents, byName := make([]*benchAgent, 0, clusters), map[string]*benchAgent{}
	for _, cluster := range changes.Clusters {
		agent := &benchAgent{uid: cluster.UID}
		agents, byName[cluster.Name] = append(agents, agent), agent
	}
	for _, service := range changes.Services {
		byName[service.Spec.Cluster].services = append(byName[service.Spec.Cluster].services, service.UID)
	}
	return store, view, agents
}

func benchReports(b *testing.B, agents []*benchAgent, take func(context.Context, catalog.AgentReport) error) {
	b.SetParallelism((benchAgents + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	var next atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		agent := agents[int(next.Add(1)-1)%len(agents)]
		for pb.Next() {
			if err := take(b.Context(), agent.next()); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reports/s")
}

// next is the agent's next report: one of its services changed.
func (a *benchAgent) next() catalog.AgentReport {
	a.sequence++
	uid := a.services[int(a.sequence)%len(a.services)]
	return catalog.AgentReport{
		ClusterUID: a.uid, Instance: "i", Sequence: a.sequence, Full: a.sequence == 1, PlanVersion: "v", ReceivedAt: time.Now().UTC(),
		Services: []catalog.StoredReport{{ServiceUID: uid, Report: &catalog.ServiceReport{
			Phase: catalog.PhaseHealthy, ObservedSpecDigest: "spec", AppliedDigests: []string{"sha256:0123"}, AppliedCommits: []string{"0123456789"},
			Counts: catalog.Counts{Total: 10, Healthy: 10}, AppliedAt: time.Now().UTC(),
		}}},
	}
}
