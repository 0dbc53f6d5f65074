// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// crowd is a policy over many services, with the store of its rollouts. The view of a service
// changes in place, so that the figures measure rollouts and not the fleet.
type crowd struct {
	drive.Store

	t       testing.TB
	work    *drive.Work
	now     time.Time
	policy  *catalog.RolloutPolicy
	members []drive.Seen
	indexes map[string]int
	// changed are the members of which something else is seen than at the last look.
	changed map[int]struct{}
	// entered are the services whose agents have not reported on what they are admitted to.
	entered []int
	digests map[string]string
}

// newCrowd returns a policy over so many services in a tenth as many clusters. All run the commit c1, and are
// held at it.
func newCrowd(t testing.TB, services int) *crowd {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "leat.db")), sealing)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	policy := &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}, Spec: catalog.RolloutPolicySpec{Strategy: rollout.Strategy{
		Waves: []rollout.Wave{{Name: "canary", Percent: 1}},
	}}}
	if _, err := catalog.NewEditor(store).Apply(t.Context(), []catalog.Object{policy}, false); err != nil {
		t.Fatal(err)
	}
	stored := sqlstore.RolloutsOf(store)
	now, err := store.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := drive.NewMetrics(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{
		Store: stored, t: t, now: time.Unix(1e9, 0).UTC(), policy: catalog.PlainOf[*catalog.RolloutPolicy](now.Plain)[0],
		indexes: make(map[string]int, services), changed: map[int]struct{}{}, digests: map[string]string{},
	}
	term, ok, err := stored.Claim(t.Context(), "replica", election.Tenure{})
	if err != nil || !ok {
		t.Fatalf("claim: got %v, %v", ok, err)
	}
	c.work = drive.NewWork(drive.Params{Store: c, Fleet: c, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}, term)
	spec := catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "demo", Path: "app"}}}
	staged := spec.Staged()
	for i := range services {
		cluster := fmt.Sprint("cluster-", i/10)
		service := &catalog.Service{Metadata: catalog.Metadata{UID: fmt.Sprintf("4c9b5f0e-7d0b-4a53-9d8e-%012d", i), Name: fmt.Sprintf("app-%d@%s", i%10, cluster)}, Spec: spec}
		service.Spec.Cluster = cluster
		c.indexes[service.UID] = i
		held := &catalog.Admission{ServiceUID: service.UID, Service: service.Name, Content: heldAt("c1"), Spec: staged, Config: catalog.NoConfig}
		c.members = append(c.members, drive.Seen{
			Service: service, ClusterLabels: map[string]string{"region": fmt.Sprint("r", i%7)}, Spec: staged, Live: heldAt("c2"), Held: held, Config: catalog.NoConfig, IsOnline: true,
		})
		c.report(i)
	}
	return c
}

func (*crowd) IsNeeded() bool                              { return true }
func (*crowd) Still(look func())                           { look() }
func (*crowd) ClusterOf(*catalog.Service) *catalog.Cluster { return nil }
func (*crowd) Refresh(context.Context) error               { return nil }

func (*crowd) Layers([]*catalog.Service) []string { return nil }

func (*crowd) Revision() int64 { return 0 }

func (*crowd) Behind() func(*catalog.Service) bool {
	return func(*catalog.Service) bool { return false }
}

func (c *crowd) Watch() drive.Watch { return c }

func (c *crowd) Look([]catalog.Key, bool) drive.Sight {
	changes := drive.Changes{Seen: slices.Sorted(maps.Keys(c.changed))}
	clear(c.changed)
	return drive.Sight{
		Policies: []*catalog.RolloutPolicy{c.policy}, Members: map[string][]drive.Seen{c.policy.UID: c.members},
		Changes: map[string]drive.Changes{c.policy.UID: changes},
	}
}

// Save implements drive.Store. Services are seen with what they are admitted to.
func (c *crowd) Save(ctx context.Context, term int64, step drive.Step) error {
	if err := c.Store.Save(ctx, term, step); err != nil {
		return err
	}
	for _, a := range step.Admissions {
		i := c.indexes[a.ServiceUID]
		c.members[i].Held = &a
		c.changed[i] = struct{}{}
		c.entered = append(c.entered, i)
	}
	return nil
}

// report has an agent report that a service is healthy with what it is held at.
func (c *crowd) report(i int) {
	held := c.members[i].Held
	c.changed[i] = struct{}{}
	if c.digests[held.Spec.Digest] == "" {
		c.digests[held.Spec.Digest] = plan.SpecDigest(held.SpecFor(c.members[i].Service.Spec), nil)
	}
	c.members[i].Report = &catalog.ServiceReport{
		Phase: catalog.PhaseHealthy, ObservedSpecDigest: c.digests[held.Spec.Digest], AppliedDigests: []string{held.Content[0].Snapshot.Digest.String()},
	}
}

// round has the leader decide.
func (c *crowd) round() {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	if _, err := c.work.Round(c.t.Context(), c.now, true); err != nil {
		c.t.Fatal(err)
	}
}

// latest returns the latest rollout.
func (c *crowd) latest() *drive.Record {
	c.t.Helper()
	heads, err := c.Heads(c.t.Context())
	if err != nil || len(heads) != 1 {
		c.t.Fatalf("got %v, %v, want one rollout", heads, err)
	}
	record, err := c.Record(c.t.Context(), heads[0].ID)
	if err != nil {
		c.t.Fatal(err)
	}
	return record
}

// BenchmarkRolloutStep has ten agents report on services that a rollout over 10,000 brings to
// another commit. It measures a step of the leader: it sees the reports, decides, and writes the
// results.
func BenchmarkRolloutStep(b *testing.B) {
	const services, reports = 10_000, 10
	c := newCrowd(b, services)
	// No member is admitted, so that no step is larger than another.
	c.policy.Spec.Strategy.Freezes = []rollout.Freeze{{From: c.now, Until: c.now.AddDate(10, 0, 0)}}
	c.round()
	next := 0
	b.ReportAllocs()
	for b.Loop() {
		for range reports {
			i := next % services
			report := *c.members[i].Report
			if report.Phase == catalog.PhaseHealthy {
				report.Phase = catalog.PhaseProgressing
			} else {
				report.Phase = catalog.PhaseHealthy
			}
			c.members[i].Report, c.changed[i] = &report, struct{}{}
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
			for b.Loop() {
				b.StopTimer()
				c, slowest, rounds := newCrowd(b, services), map[string]time.Duration{}, 0
				b.StartTimer()
				c.run(func(phase string, work func()) {
					begun := time.Now()
					work()
					slowest[phase] = max(slowest[phase], time.Since(begun))
					rounds++
				})
				for phase, took := range slowest {
					b.ReportMetric(took.Seconds(), "s/"+phase)
				}
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				b.ReportMetric(float64(rounds), "rounds")
				b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB")
			}
		})
	}
}

// TestRolloutOverMoreThanTwentyThousand brings a commit to 20,001 services, which were too many once, and replays
// how it came to them.
func TestRolloutOverMoreThanTwentyThousand(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 20_001)
	c.run(func(_ string, work func()) { work() })
	log, err := c.Store.(drive.People).Log(t.Context(), c.policy.UID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := log.Replay(); diff != "" || log.Record.Run.Counts.Arrived != len(c.members) {
		t.Errorf("got %d arrived, replay: %s; want all", log.Record.Run.Counts.Arrived, diff)
	}
}

// run has the leader work until the rollout has ended. do carries out its phases: it begins, takes steps, and is
// read at last.
func (c *crowd) run(do func(phase string, work func())) {
	c.t.Helper()
	do("begin", c.round)
	for isFirst := true; isFirst || len(c.entered) > 0; isFirst = false {
		for _, i := range c.entered {
			c.report(i)
		}
		c.entered = c.entered[:0]
		do("step", c.round)
	}
	do("read", func() {
		if record := c.latest(); record.Run.State != rollout.Completed {
			c.t.Fatalf("got %s, waiting for %+v, want completed", record.Run.State, record.Run.Blocked)
		}
	})
}
