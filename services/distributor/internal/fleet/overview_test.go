// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// TestOverviewsTouchNoPlan has a cluster's overview change again and again: people who watch are
// told once until they look, and find the latest; plans stay as they are, and no waiter for one is
// woken.
func TestOverviewsTouchNoPlan(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.add(catalog.Changes{Clusters: []*catalog.Cluster{cluster("one")}, Services: []*catalog.Service{service("app", "one", app)}})
	plans, objects := fanout.NewHub[string](0), fanout.NewHub[catalog.Key](0)
	v := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: plans, Objects: objects, PollInterval: time.Second,
	})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, _ := v.Plan("one")
	agents, people := plans.WatchAll(), objects.WatchAll()
	defer agents.Close()
	defer people.Close()
	say := func(sequence uint64, pods int32) {
		t.Helper()
		changed := cluster("one")
		changed.Agent.Sequence = sequence
		changed.Agent.Report.Overview.Pods = &catalog.PodsOverview{Running: pods}
		l.add(catalog.Changes{Clusters: []*catalog.Cluster{changed}})
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100 {
		say(uint64(n), int32(n))
	}
	key := catalog.Key{Kind: catalog.KindCluster, Name: "one"}
	if keys, lagged := people.Take(); !slices.Equal(keys, []catalog.Key{key}) || lagged {
		t.Errorf("got changes of %v, want of the cluster, once", keys)
	}
	record, _ := v.Records.Get(key)
	if diff := cmp.Diff(catalog.ClusterOverview{Pods: &catalog.PodsOverview{Running: 99}}, record.Cluster.Report.Overview); diff != "" {
		t.Errorf("overview differs (-want +got):\n%s", diff)
	}
	say(100, 99)
	if keys, _ := people.Take(); len(keys) != 0 {
		t.Errorf("got changes of %v from a report that says the same again, want none", keys)
	}
	if keys, _ := agents.Take(); len(keys) != 0 {
		t.Errorf("got plans of %v changed, want none", keys)
	}
	if after, _ := v.Plan("one"); after != before {
		t.Error("the plan was computed anew")
	}
}

// TestClustersHaveTheSkewOfTheirAgents compares the versions of agents with the hub's in the records of
// clusters.
func TestClustersHaveTheSkewOfTheirAgents(t *testing.T) {
	t.Parallel()
	versions := map[string]string{"old": "v0.2.9", "same": "v0.5.0", "new": "v0.6.0", "unreleased": "0.1.0-dev", "silent": ""}
	l := &log{}
	for name, version := range versions {
		c := cluster(name)
		c.Agent.Report.AgentVersion = version
		l.add(catalog.Changes{Clusters: []*catalog.Cluster{c}})
	}
	v := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second, HubVersion: "0.5.0",
	})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, version := range versions {
		record, _ := v.Records.Get(catalog.Key{Kind: catalog.KindCluster, Name: name})
		got := record.Cluster.AgentSkew
		if isOutside := name == "old" || name == "new"; (got != nil) != isOutside {
			t.Errorf("%s, version %q: got the skew %+v", name, version, got)
			continue
		}
		if got != nil && (got.IsNewer != (name == "new") || !strings.Contains(got.Message, version[1:]) || !strings.Contains(got.Message, "0.5.0")) {
			t.Errorf("%s: got %+v, want both versions", name, got)
		}
	}
}
