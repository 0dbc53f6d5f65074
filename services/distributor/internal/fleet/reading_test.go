// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// derivedReports returns a log with the clusters one and two, each of which has the global service web, and
// with reports of both.
func derivedReports(phase catalog.Phase) (*log, catalog.Changes) {
	all := globals(globalIn("first", 1))
	all.Clusters = []*catalog.Cluster{cluster("one"), cluster("two")}
	l := &log{derived: map[string][]catalog.StoredReport{}}
	for _, c := range all.Clusters {
		l.derived[c.UID] = []catalog.StoredReport{reportOfWeb(c, phase)}
	}
	return l, all
}

func reportOfWeb(c *catalog.Cluster, phase catalog.Phase) catalog.StoredReport {
	return catalog.StoredReport{
		Service: "web@" + c.Name, ServiceUID: catalog.DerivedUID("uid-web", c.UID), Report: &catalog.ServiceReport{Phase: phase},
	}
}

// reported returns what the view knows of the report of web in a cluster.
func reported(t *testing.T, v *derivedView, cluster string) (catalog.Phase, *catalog.Problem) {
	t.Helper()
	service, ok := v.Catalog.Service("web@" + cluster)
	if !ok {
		t.Fatalf("there is no web in %s", cluster)
	}
	status := v.Records.Describe(service).Service
	if status.Report == nil {
		return "none", status.Problem
	}
	return status.Report.Phase, status.Problem
}

// TestReportsAreReadAfterTheStart has a store that does not give the reports of derived services at
// the start. The view is loaded without them, reports it, and reads them later. A report that came
// meanwhile stays.
func TestReportsAreReadAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, all := derivedReports(catalog.PhaseHealthy)
		l.isDerivedAway.Store(true)
		l.add(all)
		v := newDerivedView(l, fleet.AtOnce{})
		if err := v.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, cluster := range []string{"one", "two"} {
			if phase, problem := reported(t, v, cluster); phase != "none" || problem == nil || problem.Reason != reason.ReportUnread {
				t.Errorf("%s: got %s, %v, want to be told that the report is not read", cluster, phase, problem)
			}
		}
		settled := make(chan struct{})
		go func() {
			_ = fleet.AwaitSettled(t.Context(), v.View)
			close(settled)
		}()
		reading := make(chan error, 1)
		go func() { reading <- fleet.ReadReports(t.Context(), v.View) }()
		<-time.After(10 * time.Second) // virtual
		v.add(t, catalog.Changes{Reports: []catalog.StoredReport{reportOfWeb(all.Clusters[0], catalog.PhaseDegraded)}})
		select {
		case <-settled:
			t.Error("what would take an absent report for a service that never ran may begin")
		default:
		}
		l.isDerivedAway.Store(false)
		if err := <-reading; err != nil {
			t.Error(err)
		}
		<-settled
		if phase, problem := reported(t, v, "one"); phase != catalog.PhaseDegraded || problem != nil {
			t.Errorf("got %s, %v, want the report that came meanwhile", phase, problem)
		}
		if phase, problem := reported(t, v, "two"); phase != catalog.PhaseHealthy || problem != nil {
			t.Errorf("got %s, %v, want the report that was stored", phase, problem)
		}
	})
}

// TestReportsOfASmallFleetAreReadAtTheStart requires that no caller sees a fleet without its
// reports where these are read in a moment, and in a hub without global services.
func TestReportsOfASmallFleetAreReadAtTheStart(t *testing.T) {
	t.Parallel()
	l, all := derivedReports(catalog.PhaseHealthy)
	l.add(all)
	v := newDerivedView(l, fleet.AtOnce{})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if phase, problem := reported(t, v, "two"); phase != catalog.PhaseHealthy || problem != nil {
		t.Errorf("got %s, %v, want the report that was stored", phase, problem)
	}
	none := &log{}
	none.isDerivedAway.Store(true) // no one asks, because there is no global service
	none.add(catalog.Changes{Clusters: all.Clusters})
	empty := newDerivedView(none, fleet.AtOnce{})
	for _, view := range []*derivedView{v, empty} {
		if view == empty {
			if err := view.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := fleet.AwaitSettled(t.Context(), view.View); err != nil {
			t.Error(err)
		}
	}
}

// TestSecPlansWaitForReportsThatDecide has a policy that has taken over none of its services. A
// cluster's applied content decides whether the service keeps it, so no plan is sent before it is
// known.
func TestSecPlansWaitForReportsThatDecide(t *testing.T) {
	t.Parallel()
	entryOf := func(v *derivedView) plan.Entry {
		p, _ := v.Plan("one")
		entry, _ := p.Entry("web")
		return entry
	}
	l, all := derivedReports(catalog.PhaseHealthy)
	before := newDerivedView(l, fleet.AtOnce{})
	before.add(t, all)
	before.Resolved(t.Context(), app, good("first"), nil)
	applied := entryOf(before)
	report := l.derived[all.Clusters[0].UID][0]
	report.Report.ObservedSpecDigest, report.Report.AppliedDigests = applied.SpecDigest, []string{applied.Bundles[0].Digest.String()}

	l.add(catalog.Changes{Plain: []catalog.Plain{&catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves", UID: "uid-waves"}}}})
	l.isDerivedAway.Store(true)
	v := newDerivedView(l, fleet.AtOnce{})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.Resolved(t.Context(), app, good("first"), nil)
	if !fleet.IsUndecided(v.View, "one") || len(entryOf(v).Bundles) != 0 {
		t.Error("a plan is given that may take away what the cluster has")
	}
	watcher := v.plans.Watch("one")
	defer watcher.Close()
	l.isDerivedAway.Store(false)
	if err := fleet.ReadReports(t.Context(), v.View); err != nil {
		t.Fatal(err)
	}
	if got := entryOf(v); fleet.IsUndecided(v.View, "one") || len(got.Bundles) != 1 || got.Bundles[0].Digest != applied.Bundles[0].Digest {
		t.Errorf("got %+v, want that the cluster keeps what it has applied", got)
	}
	if names, _ := watcher.Take(); len(names) == 0 {
		t.Error("the agent whose plan was held back was not told")
	}
	// A cluster that has applied something else waits for the policy.
	if p, _ := v.Plan("two"); len(p.Entries) != 1 || len(p.Entries[0].Bundles) != 0 {
		t.Errorf("got %+v, want a service that waits", p.Entries)
	}
}

// TestReadingEndsWithTheHub requires that a hub which stops does not wait for a store that is away.
func TestReadingEndsWithTheHub(t *testing.T) {
	t.Parallel()
	l, all := derivedReports(catalog.PhaseHealthy)
	l.isDerivedAway.Store(true)
	l.add(all)
	v := newDerivedView(l, fleet.AtOnce{})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := fleet.ReadReports(ctx, v.View); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

// TestADamagedReportHoldsNothingUp requires that a report that cannot be read is logged, and costs
// neither the other reports nor the start of the hub. Under a policy, its service keeps the
// cluster's content. The agent's next report is taken.
func TestADamagedReportHoldsNothingUp(t *testing.T) {
	t.Parallel()
	l, all := derivedReports(catalog.PhaseHealthy)
	damaged := &l.derived[all.Clusters[1].UID][0]
	damaged.Report, damaged.Damage = nil, errors.New("not JSON")
	all.Plain = []catalog.Plain{&catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves", UID: "uid-waves"}}}
	l.add(all)
	logged := &bytes.Buffer{}
	v := &derivedView{log: l, plans: fanout.NewHub[string](0)}
	v.View = fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.NewTextHandler(logged, nil)), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: v.plans, Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	if err := errors.Join(v.Load(t.Context()), fleet.ReadReports(t.Context(), v.View), fleet.AwaitSettled(t.Context(), v.View)); err != nil {
		t.Fatal(err)
	}
	v.Resolved(t.Context(), app, good("first"), nil)
	if phase, problem := reported(t, v, "one"); phase != catalog.PhaseHealthy || problem != nil && problem.Reason == reason.ReportUnread {
		t.Errorf("got %s, %v, want the report that can be read", phase, problem)
	}
	if phase, problem := reported(t, v, "two"); phase != "none" || problem != nil && problem.Reason == reason.ReportUnread {
		t.Errorf("got %s, %v, want a service without a report that does not wait for one", phase, problem)
	}
	if p, _ := v.Plan("two"); fleet.IsUndecided(v.View, "two") || len(p.Entries) != 1 || len(p.Entries[0].Bundles) != 0 {
		t.Errorf("got %+v, want a service that waits for its policy", p.Entries)
	}
	if text := logged.String(); strings.Count(text, "stored report cannot be read") != 1 || !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "web@two") {
		t.Errorf("got the log\n%s\nwant the service whose report is damaged", text)
	}
	v.add(t, catalog.Changes{Reports: []catalog.StoredReport{reportOfWeb(all.Clusters[1], catalog.PhaseDegraded)}})
	v.add(t, catalog.Changes{Reports: []catalog.StoredReport{{Service: "web@two", ServiceUID: damaged.ServiceUID, Damage: damaged.Damage}}})
	if phase, _ := reported(t, v, "two"); phase != catalog.PhaseDegraded {
		t.Errorf("got %s, want the last report that could be read", phase)
	}
}

// TestReadingGoesOnAfterTheStoreWasAway has a store that ends after some of the clusters. Reports
// that were read stay, each failure is logged, and the rest is read when the store is back.
func TestReadingGoesOnAfterTheStoreWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters = 40
		l, all := derivedReports(catalog.PhaseHealthy)
		for i := range clusters {
			c := cluster(fmt.Sprintf("further-%02d", i))
			all.Clusters = append(all.Clusters, c)
			l.derived[c.UID] = []catalog.StoredReport{reportOfWeb(c, catalog.PhaseHealthy)}
		}
		l.awayAfter.Store(clusters / 2)
		l.add(all)
		logged := &bytes.Buffer{}
		v := &derivedView{log: l, plans: fanout.NewHub[string](0)}
		v.View = fleet.New(fleet.Params{
			Store: l, Logger: slog.New(slog.NewTextHandler(logged, nil)), Tracer: noop.NewTracerProvider().Tracer(""),
			Plans: v.plans, Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
		})
		if err := v.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		read := func() (n int) {
			for _, c := range all.Clusters {
				if phase, _ := reported(t, v, c.Name); phase == catalog.PhaseHealthy {
					n++
				}
			}
			return n
		}
		if got := read(); got == 0 || got == len(all.Clusters) {
			t.Errorf("got %d of %d reports, want those before the store ended", got, len(all.Clusters))
		}
		reading := make(chan error, 1)
		go func() { reading <- fleet.ReadReports(t.Context(), v.View) }()
		<-time.After(10 * time.Second) // virtual
		l.isDerivedAway.Store(false)
		if err := <-reading; err != nil {
			t.Fatal(err)
		}
		if got := read(); got != len(all.Clusters) {
			t.Errorf("got %d of %d reports", got, len(all.Clusters))
		}
		if !strings.Contains(logged.String(), "the store is away") {
			t.Errorf("got the log\n%s\nwant the failures", logged)
		}
	})
}
