// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// crowd is a policy over many services, with the store of its rollouts. What is seen of a service changes in
// place, so that the figures are those of rollouts and not of the fleet.
type crowd struct {
	rollouts.Store

	b       *testing.B
	work    *rollouts.Work
	now     time.Time
	policy  *catalog.RolloutPolicy
	members []rollouts.Seen
	indexes map[string]int
	// entered are the services whose agents have not reported on what they are admitted to.
	entered []int
	digests map[string]string
}

// newCrowd returns a policy over so many services in a tenth as many clusters. All run the commit c1, and are
// held at it.
func newCrowd(b *testing.B, services int) *crowd {
	b.Helper()
	store, err := sqlstore.Open(b.Context(), "sqlite://"+filepath.ToSlash(filepath.Join(b.TempDir(), "leat.db")), sealing)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	policy := &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}, Spec: catalog.RolloutPolicySpec{Strategy: rollout.Strategy{
		Waves: []rollout.Wave{{Name: "canary", Percent: 1}},
	}}}
	if _, err := catalog.NewEditor(store).Apply(b.Context(), []catalog.Object{policy}, false); err != nil {
		b.Fatal(err)
	}
	stored, err := store.Changes(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	metrics, err := rollouts.NewMetrics(noop.Meter{})
	if err != nil {
		b.Fatal(err)
	}
	c := &crowd{
		Store: sqlstore.RolloutsOf(store), b: b, now: time.Unix(1e9, 0).UTC(), policy: stored.Policies[0],
		indexes: make(map[string]int, services), digests: map[string]string{},
	}
	term, ok, err := c.Claim(b.Context(), "replica", rollouts.Lead{})
	if err != nil || !ok {
		b.Fatalf("claim: got %v, %v", ok, err)
	}
	c.work = rollouts.NewWork(rollouts.Params{Store: c, Fleet: c, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}, term)
	spec := catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "demo", Path: "app"}}}
	staged := spec.Staged()
	for i := range services {
		cluster := fmt.Sprint("cluster-", i/10)
		service := &catalog.Service{Metadata: catalog.Metadata{UID: fmt.Sprintf("4c9b5f0e-7d0b-4a53-9d8e-%012d", i), Name: fmt.Sprintf("app-%d@%s", i%10, cluster)}, Spec: spec}
		service.Spec.Cluster = cluster
		c.indexes[service.UID] = i
		held := &catalog.Admission{ServiceUID: service.UID, Service: service.Name, Content: heldAt("c1"), Spec: staged}
		c.members = append(c.members, rollouts.Seen{
			Service: service, ClusterLabels: map[string]string{"region": fmt.Sprint("r", i%7)}, Spec: staged, Live: heldAt("c2"), Held: held, IsOnline: true,
		})
		c.report(i)
	}
	return c
}

func (*crowd) IsNeeded() bool                              { return true }
func (*crowd) ClusterOf(*catalog.Service) *catalog.Cluster { return nil }
func (*crowd) Refresh(context.Context) error               { return nil }

func (c *crowd) Look() rollouts.Sight {
	return rollouts.Sight{Policies: []*catalog.RolloutPolicy{c.policy}, Members: map[string][]rollouts.Seen{c.policy.UID: c.members}}
}

// Save implements rollouts.Store. Services are seen with what they are admitted to.
func (c *crowd) Save(ctx context.Context, term int64, step rollouts.Step) error {
	if err := c.Store.Save(ctx, term, step); err != nil {
		return err
	}
	for _, a := range step.Admissions {
		i := c.indexes[a.ServiceUID]
		c.members[i].Held = &a
		c.entered = append(c.entered, i)
	}
	return nil
}

// report has an agent report that a service is healthy with what it is held at.
func (c *crowd) report(i int) {
	held := c.members[i].Held
	if c.digests[held.Spec.Digest] == "" {
		c.digests[held.Spec.Digest] = plan.SpecDigest(held.SpecFor(c.members[i].Service.Spec), nil)
	}
	c.members[i].Report = &catalog.ServiceReport{
		Phase: catalog.PhaseHealthy, ObservedSpecDigest: c.digests[held.Spec.Digest], AppliedDigests: []string{held.Content[0].Snapshot.Digest.String()},
	}
}

// round has the leader decide, and returns the latest rollout.
func (c *crowd) round() {
	c.b.Helper()
	c.now = c.now.Add(time.Second)
	if _, err := c.work.Round(c.b.Context(), c.now, true); err != nil {
		c.b.Fatal(err)
	}
}

// latest returns the latest rollout.
func (c *crowd) latest() *rollouts.Record {
	c.b.Helper()
	heads, err := c.Heads(c.b.Context())
	if err != nil || len(heads) != 1 {
		c.b.Fatalf("got %v, %v, want one rollout", heads, err)
	}
	record, err := c.Record(c.b.Context(), heads[0].ID)
	if err != nil {
		c.b.Fatal(err)
	}
	return record
}

// BenchmarkRolloutStep has ten agents report on services that a rollout over 10,000 brings to another commit.
// What is measured is a step of the leader: it sees the reports, decides, and writes what follows.
func BenchmarkRolloutStep(b *testing.B) {
	const services, reports = 10_000, 10
	c := newCrowd(b, services)
	// Nobody is admitted, so that no step is larger than another.
	c.policy.Spec.Strategy.Freezes = []rollout.Freeze{{From: c.now, Until: c.now.AddDate(10, 0, 0)}}
	c.round()
	next := 0
	b.ReportAllocs()
	for b.Loop() {
		for range reports {
			phase := &c.members[next%services].Report.Phase
			if *phase == catalog.PhaseHealthy {
				*phase = catalog.PhaseProgressing
			} else {
				*phase = catalog.PhaseHealthy
			}
			next++
		}
		c.round()
	}
	b.StopTimer()
	if record := c.latest(); record.Run.Seq < int64(b.N*reports) {
		b.Fatalf("got %d events after %d steps of %d reports", record.Run.Seq, b.N, reports)
	}
}

// BenchmarkRolloutOfManyServices has a rollout over all services of a hub begin, move and end. Agents report a
// round after they are admitted.
func BenchmarkRolloutOfManyServices(b *testing.B) {
	for _, services := range []int{20_000, 200_000} {
		b.Run(fmt.Sprint(services), func(b *testing.B) {
			if services > rollout.MaxMembers {
				b.Skipf("a rollout has at most %d members", rollout.MaxMembers)
			}
			for b.Loop() {
				b.StopTimer()
				c := newCrowd(b, services)
				b.StartTimer()
				c.run()
			}
		})
	}
}

// run has the leader work until the rollout has ended.
func (c *crowd) run() {
	begun := time.Now()
	c.round()
	c.b.ReportMetric(time.Since(begun).Seconds(), "s/begin")
	rounds, slowest := 0, time.Duration(0)
	for len(c.entered) > 0 || rounds == 0 {
		for _, i := range c.entered {
			c.report(i)
		}
		c.entered = c.entered[:0]
		begun := time.Now()
		c.round()
		slowest = max(slowest, time.Since(begun))
		rounds++
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	c.b.ReportMetric(float64(rounds), "rounds")
	c.b.ReportMetric(slowest.Seconds(), "s/slowest")
	c.b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB")
	if record := c.latest(); record.Run.State != rollout.Completed {
		c.b.Fatalf("got %s, waiting for %+v, want completed", record.Run.State, record.Run.Blocked)
	}
}
