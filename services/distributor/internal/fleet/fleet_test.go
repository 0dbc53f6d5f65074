// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// log is a store whose log the test writes.
type log struct {
	changes  []catalog.Changes
	presence []catalog.Presence
	// snapshots are the results of SnapshotsOf, and down is the store's failure.
	snapshots map[catalog.Source]catalog.Resolution
	down      error
	// behind is how far the store's clock is behind that of the test.
	behind time.Duration
	// derived are the results of DerivedReports, by cluster; isDerivedAway makes it fail, and
	// awayAfter does after so many clusters, if it is not zero.
	derived       map[string][]catalog.StoredReport
	isDerivedAway atomic.Bool
	awayAfter     atomic.Int64
}

func (l *log) Changes(_ context.Context, since int64) (catalog.Changes, error) {
	all := catalog.Changes{}
	for _, c := range l.changes {
		all.Revision = max(all.Revision, c.Revision)
		if c.Revision <= since {
			continue
		}
		all.Deleted = append(all.Deleted, c.Deleted...)
		all.Projects = append(all.Projects, c.Projects...)
		all.Clusters = append(all.Clusters, c.Clusters...)
		all.Repositories = append(all.Repositories, c.Repositories...)
		all.Services = append(all.Services, c.Services...)
		all.Globals = append(all.Globals, c.Globals...)
		all.Requests = append(all.Requests, c.Requests...)
		all.Reports = append(all.Reports, c.Reports...)
		all.Grants = append(all.Grants, c.Grants...)
		all.Plain = append(all.Plain, c.Plain...)
		all.ConfigSets = append(all.ConfigSets, c.ConfigSets...)
		all.Admissions = append(all.Admissions, c.Admissions...)
	}
	return all, l.down
}

func (l *log) DerivedReports(_ context.Context, clusterUIDs []string) ([]catalog.StoredReport, error) {
	if after := l.awayAfter.Load(); after != 0 && l.awayAfter.Add(-int64(len(clusterUIDs))) <= 0 {
		l.isDerivedAway.Store(true)
		l.awayAfter.Store(0)
	}
	if l.isDerivedAway.Load() {
		return nil, errors.New("the store is away")
	}
	var all []catalog.StoredReport
	for _, uid := range clusterUIDs {
		all = append(all, l.derived[uid]...)
	}
	return all, nil
}

func (l *log) SaveSnapshot(context.Context, string, catalog.Source, catalog.Resolution) error {
	return nil
}

func (l *log) LoadSnapshots(context.Context) (map[catalog.Source]catalog.Resolution, error) {
	return map[catalog.Source]catalog.Resolution{}, nil
}

func (l *log) SnapshotsOf(_ context.Context, sources []catalog.Source) (map[catalog.Source]catalog.Resolution, error) {
	found := map[catalog.Source]catalog.Resolution{}
	for _, source := range sources {
		if r, ok := l.snapshots[source]; ok {
			found[source] = r
		}
	}
	return found, l.down
}

func (l *log) PruneSnapshots(context.Context, int64, func(catalog.Source) bool) error { return nil }

func (l *log) SavePresence(_ context.Context, presence []catalog.Presence) error {
	l.presence = append(l.presence, presence...)
	return nil
}

func (l *log) Now(context.Context) (time.Time, error) { return time.Now().Add(-l.behind), l.down }

func (l *log) add(c catalog.Changes) {
	c.Revision = int64(len(l.changes) + 1)
	l.changes = append(l.changes, c)
}

func cluster(name string) *catalog.Cluster {
	return &catalog.Cluster{Metadata: catalog.Metadata{Name: name, UID: "uid-" + name}}
}

func service(name, cluster string, sources ...catalog.Source) *catalog.Service {
	return &catalog.Service{
		Metadata: catalog.Metadata{Name: name, UID: "uid-" + name, Generation: 1},
		Spec:     catalog.ServiceSpec{Cluster: cluster, Sources: sources},
	}
}

func good(content string) catalog.Resolution {
	return catalog.Resolution{Snapshot: &catalog.Snapshot{Commit: content, Digest: digest.FromBytes([]byte(content))}}
}

// newView has cluster one with the service app made of demo, and cluster two with the service
// other.
func newView(t *testing.T) (*fleet.View, *log, *fanout.Hub[string]) {
	t.Helper()
	l := &log{}
	l.add(catalog.Changes{
		Clusters:     []*catalog.Cluster{cluster("one"), cluster("two")},
		Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "demo", UID: "uid-demo"}}},
		Services: []*catalog.Service{
			service("app", "one", catalog.Source{Repository: "demo", Path: "app"}),
			service("other", "two", catalog.Source{Repository: "demo", Path: "other"}),
		},
	})
	plans := fanout.NewHub[string](0)
	return loaded(t, l, plans), l, plans
}

// replicaOf returns another view of the same store.
func replicaOf(t *testing.T, l *log) *fleet.View {
	t.Helper()
	return loaded(t, l, fanout.NewHub[string](0))
}

func loaded(t *testing.T, l *log, plans *fanout.Hub[string]) *fleet.View {
	t.Helper()
	v := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: plans, Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return v
}

var app = catalog.Source{Repository: "demo", Path: "app"}

func TestOnlyPlansThatNameTheSourceChange(t *testing.T) {
	t.Parallel()
	v, _, plans := newView(t)
	w := plans.WatchAll()
	defer w.Close()
	_, _ = v.Plan("one")
	before, _ := v.Plan("two")
	v.Resolved(t.Context(), app, good("one"), nil)
	if keys, _ := w.Take(); len(keys) != 1 || keys[0] != "one" {
		t.Errorf("got changes of %v, want of one", keys)
	}
	if after, _ := v.Plan("two"); after != before {
		t.Error("a plan that does not name the source was computed anew")
	}
	moved := good("one")
	moved.Snapshot.Commit = "a later commit"
	first, _ := v.Plan("one")
	v.Resolved(t.Context(), app, moved, nil)
	if keys, _ := w.Take(); len(keys) != 0 {
		t.Errorf("got changes of %v for a commit that does not touch the folder, want none", keys)
	}
	second, _ := v.Plan("one")
	if second.Version != first.Version || second.Entries[0].Bundles[0].Commit != "a later commit" {
		t.Errorf("got %+v, want the same version with the latest commit", second)
	}
}

func TestRecentPlansStayReadable(t *testing.T) {
	t.Parallel()
	v, _, _ := newView(t)
	_, _ = v.Plan("one")
	for i := range 6 {
		v.Resolved(t.Context(), app, good(fmt.Sprint(i)), nil)
	}
	for i, want := range []bool{false, false, true, true, true, true} {
		d := digest.FromBytes([]byte(fmt.Sprint(i)))
		if _, got := v.Bundle("one", d); got != want {
			t.Errorf("content %d: got readable %v, want %v", i, got, want)
		}
		if _, got := v.Bundle("two", d); got {
			t.Errorf("content %d: readable by another cluster", i)
		}
		if got := v.Pinned(d); got != (i == 5) {
			t.Errorf("content %d: got pinned %v, want the current plan's alone", i, got)
		}
	}
}

// TestReplacedContentKeepsItsCommit moves the commit, then the content: who still downloads the old
// content must be sent to a commit that holds it.
func TestReplacedContentKeepsItsCommit(t *testing.T) {
	t.Parallel()
	v, _, _ := newView(t)
	first, second, third := good("one"), good("one"), good("two")
	first.Snapshot.Commit, second.Snapshot.Commit, third.Snapshot.Commit = "first", "second", "third"
	v.Resolved(t.Context(), app, first, nil)
	_, _ = v.Plan("one")
	v.Resolved(t.Context(), app, second, nil)
	v.Resolved(t.Context(), app, third, nil)
	if got, _ := v.Bundle("one", first.Snapshot.Digest); got.Commit == "third" || got.Commit == "" {
		t.Errorf("got %+v, want a commit with that content", got)
	}
	if got, _ := v.Bundle("one", third.Snapshot.Digest); got.Commit != "third" {
		t.Errorf("got %+v, want the latest commit", got)
	}
}

// TestPlansAreKeptForThoseWhoAsk tells a plan that was kept by its pointer, and one that was not by
// its time.
func TestPlansAreKeptForThoseWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _, _ := newView(t)
		go func() { _ = v.MonitorPresence(t.Context()) }()
		c, _ := v.Catalog.Cluster("two")
		closed := v.Presence.Opened(c)
		one, _ := v.Plan("one")
		two, _ := v.Plan("two")
		kept := func(name string, last *plan.Plan) bool {
			next, _ := v.Plan(name)
			return next == last
		}
		<-time.After(50 * time.Minute)
		if !kept("one", one) {
			t.Error("the plan of a cluster that asked 50 min ago was forgotten")
		}
		<-time.After(65 * time.Minute)
		if kept("one", one) {
			t.Error("the plan of a cluster that did not ask for more than an hour was kept")
		}
		if !kept("two", two) {
			t.Error("the plan of a cluster with a stream was forgotten")
		}
		closed()
		<-time.After(65 * time.Minute)
		if kept("two", two) {
			t.Error("the plan of a cluster whose stream has closed was kept")
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	failed := &catalog.Problem{Reason: reason.RefNotFound, Message: "no such branch"}
	waiting := &catalog.Problem{Reason: reason.RepositoryNotReady, Message: "first fetch"}
	auth := &catalog.Problem{Reason: reason.UpstreamAuthRejected, Message: "wrong password"}
	resolved := good("one")
	broken := good("one")
	broken.Problem = failed
	done := []string{resolved.Snapshot.Digest.String()}
	old := []string{digest.FromBytes([]byte("old")).String()}
	for name, test := range map[string]struct {
		resolution catalog.Resolution
		mirror     *catalog.Problem
		paused     bool
		phase      catalog.Phase // of the report; empty: there is none
		applied    []string
		tried      []string // nil: the agent cannot tell
		oldSpec    bool
		dry        bool
		oldPlan    bool
		want       catalog.Phase
		reason     reason.Reason
		synced     bool
	}{
		"nothing known":             {want: catalog.PhasePending},
		"first fetch":               {resolution: catalog.Resolution{Problem: waiting}, want: catalog.PhasePending, reason: waiting.Reason},
		"first fetch fails":         {resolution: catalog.Resolution{Problem: waiting}, mirror: auth, want: catalog.PhaseFailed, reason: auth.Reason},
		"never resolvable":          {resolution: catalog.Resolution{Problem: failed}, want: catalog.PhaseFailed, reason: failed.Reason},
		"resolved":                  {resolution: resolved, want: catalog.PhasePending},
		"resolved and paused":       {resolution: resolved, paused: true, want: catalog.PhasePaused},
		"stale mirror":              {resolution: resolved, mirror: auth, phase: catalog.PhaseHealthy, applied: done, want: catalog.PhaseHealthy, synced: true},
		"healthy":                   {resolution: resolved, phase: catalog.PhaseHealthy, applied: done, want: catalog.PhaseHealthy, synced: true},
		"healthy, then broken":      {resolution: broken, phase: catalog.PhaseHealthy, applied: done, want: catalog.PhaseFailed, reason: failed.Reason, synced: true},
		"healthy with old content":  {resolution: resolved, phase: catalog.PhaseHealthy, applied: old, want: catalog.PhaseSyncing},
		"healthy with an old spec":  {resolution: resolved, phase: catalog.PhaseHealthy, applied: done, oldSpec: true, want: catalog.PhaseSyncing},
		"failing to apply":          {resolution: resolved, phase: catalog.PhaseFailed, applied: old, want: catalog.PhaseFailed},
		"failing, of an older plan": {resolution: resolved, phase: catalog.PhaseFailed, applied: old, oldPlan: true, want: catalog.PhaseSyncing},
		"failing, says the agent":   {resolution: resolved, phase: catalog.PhaseFailed, applied: old, tried: done, oldPlan: true, want: catalog.PhaseFailed},
		"failing with old content":  {resolution: resolved, phase: catalog.PhaseFailed, applied: old, tried: old, want: catalog.PhaseSyncing},
		"a dry run":                 {resolution: resolved, phase: catalog.PhaseHealthy, applied: old, dry: true, want: catalog.PhaseHealthy},
		"a dry run of an old plan":  {resolution: resolved, phase: catalog.PhaseHealthy, applied: done, dry: true, oldPlan: true, want: catalog.PhaseSyncing},
		"waiting to be applied":     {resolution: resolved, phase: catalog.PhasePending, applied: done, want: catalog.PhasePending},
		"degraded":                  {resolution: resolved, phase: catalog.PhaseDegraded, applied: done, want: catalog.PhaseDegraded, synced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, l, _ := newView(t)
			s := service("app", "one", app)
			s.Spec.Options = &syncpolicy.Options{Paused: test.paused}
			l.add(catalog.Changes{Services: []*catalog.Service{s}})
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			v.SetMirror("demo", &catalog.Mirror{Problem: test.mirror})
			v.Resolved(t.Context(), app, test.resolution, nil)
			p, _ := v.Plan("one")
			if test.phase != "" {
				stated := &catalog.ServiceReport{Phase: test.phase, AppliedDigests: test.applied, ObservedSpecDigest: p.Entries[0].SpecDigest, ObservedDigests: test.tried}
				report := catalog.AgentReport{PlanVersion: p.Version, Services: []catalog.StoredReport{
					{Service: "app", ServiceUID: "uid-app", Report: stated},
					{Service: "app", ServiceUID: "uid of an older app", Report: stated},
					{Service: "none", ServiceUID: "uid-none", Report: stated},
				}}
				if test.dry {
					stated.DryRun = &catalog.DryRun{Created: 1}
				}
				if test.oldSpec {
					stated.ObservedSpecDigest = "old"
				}
				if test.oldPlan {
					report.PlanVersion = "old"
				}
				c, _ := v.Catalog.Cluster("one")
				v.Attribute(c, &report)
				l.add(catalog.Changes{Reports: report.Services})
				if err := v.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			record, _ := v.Records.Get(catalog.Key{Kind: catalog.KindService, Name: "app"})
			got := record.Service
			var why reason.Reason
			if got.Problem != nil {
				why = got.Problem.Reason
			}
			if got.Phase != test.want || why != test.reason || got.Synced != test.synced {
				t.Errorf("got %s, %q, synced %v; want %s, %q, %v", got.Phase, why, got.Synced, test.want, test.reason, test.synced)
			}
		})
	}
}

func TestHeldBackRefIsTheSourcesProblem(t *testing.T) {
	t.Parallel()
	held := &catalog.Problem{Reason: reason.UpstreamSignatureRejected, Message: "nobody signed it"}
	for name, test := range map[string]struct {
		mirror catalog.Mirror
		want   *catalog.Problem
	}{
		"its ref":       {catalog.Mirror{Problem: held, HeldRefs: []string{"refs/heads/main"}}, held},
		"another ref":   {catalog.Mirror{Problem: held, HeldRefs: []string{"refs/heads/other"}}, nil},
		"another worry": {catalog.Mirror{Problem: &catalog.Problem{Reason: reason.UpstreamUnreachable}, HeldRefs: []string{"refs/heads/main"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _, _ := newView(t)
			v.Resolved(t.Context(), app, good("one"), nil)
			test.mirror.DefaultBranch = "refs/heads/main" // app is at HEAD
			v.SetMirror("demo", &test.mirror)
			record, _ := v.Records.Get(catalog.Key{Kind: catalog.KindService, Name: "app"})
			if got := record.Service.Sources[0]; got.Problem != test.want || got.Snapshot == nil {
				t.Errorf("got %+v, want the problem %v beside the snapshot", got, test.want)
			}
			if got := record.Service; got.Phase != catalog.PhasePending || got.Problem != nil {
				t.Errorf("got %s, %v, want what the service would have without: the last good content goes its way", got.Phase, got.Problem)
			}
		})
	}
	head := catalog.Mirror{DefaultBranch: "refs/heads/main", HeldRefs: []string{"refs/heads/main"}}
	for ref, want := range map[catalog.Ref]bool{
		{}: true, {Kind: catalog.RefName, Value: "HEAD"}: true, {Kind: catalog.RefBranch, Value: "main"}: true,
		{Kind: catalog.RefTag, Value: "main"}: false, {Kind: catalog.RefCommit, Value: "refs/heads/main"}: false, {Kind: catalog.RefSemver, Value: "*"}: false,
	} {
		if got := head.Holds(catalog.Source{Ref: ref}); got != want {
			t.Errorf("%+v: got held %t, want %t", ref, got, want)
		}
	}
}

func TestDeletedAndCreatedAnew(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	again := service("app", "one", app)
	again.UID = "another"
	l.add(catalog.Changes{
		Deleted:  []catalog.Tombstone{{Key: again.Key(), UID: "uid-app"}, {Key: catalog.Key{Kind: catalog.KindService, Name: "other"}, UID: "uid-other"}},
		Services: []*catalog.Service{again},
	})
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	record, ok := v.Records.Get(again.Key())
	if !ok || record.Object.Meta().UID != "another" {
		t.Errorf("got %+v, want the new service", record)
	}
	if p, _ := v.Plan("two"); len(p.Entries) != 0 {
		t.Errorf("got %+v, want the deleted service out of the plan", p)
	}
	l.changes = l.changes[:1] // restored from a backup
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if record, ok := v.Records.Get(again.Key()); !ok || record.Object.Meta().UID != "uid-app" {
		t.Errorf("got %+v, want what the restored store holds", record)
	}
}

func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l, _ := newView(t)
		c, _ := v.Catalog.Cluster("one")
		connected := func() bool {
			record, _ := v.Records.Get(c.Key())
			return record.Cluster.Connected
		}
		check := func(what string, want bool) {
			t.Helper()
			if got := connected(); got != want {
				t.Errorf("%s: got connected %v, want %v", what, got, want)
			}
		}
		check("never heard of", false)
		v.Presence.Heard(c)
		check("after a poll", true)
		<-time.After(2 * time.Minute)
		check("2 min after a poll", true)
		<-time.After(2 * time.Minute)
		check("4 min after a poll", false)
		closed := v.Presence.Opened(c)
		<-time.After(time.Hour)
		check("with an open stream", true)
		if err := v.Presence.StorePresence(t.Context()); err != nil || len(l.presence) != 1 || !l.presence[0].ConnectedUntil.After(time.Now()) {
			t.Errorf("got %+v, %v, want it stored for other replicas", l.presence, err)
		}
		closed()
		check("after the stream closed", false)
	})
}

// TestPresenceGoesByTheClockOfTheStore has the clock of a replica's machine five minutes ahead of the store's, as
// with a broken time service. The replica counts clusters as connected that others hear from, and stores
// times that they can compare. It follows when the clocks agree again, but not for a fraction of a second.
func TestPresenceGoesByTheClockOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{behind: 5 * time.Minute}
		shared := func() time.Time { return time.Now().Add(-l.behind).UTC() }
		one, two := cluster("one"), cluster("two")
		two.Agent.LastSeenAt, two.Agent.ConnectedUntil = shared(), shared().Add(3*time.Minute)
		l.add(catalog.Changes{Clusters: []*catalog.Cluster{one, two}})
		v := replicaOf(t, l)
		checkTwo := func(want bool) {
			t.Helper()
			if record, _ := v.Records.Get(two.Key()); record.Cluster.Connected != want {
				t.Errorf("got connected %v, want %v: another replica stored that it is until %s, and it is %s", record.Cluster.Connected, want, two.Agent.ConnectedUntil, shared())
			}
		}
		checkTwo(true)
		stored := func() catalog.Presence {
			t.Helper()
			v.Presence.Heard(one)
			if err := v.Presence.StorePresence(t.Context()); err != nil {
				t.Fatal(err)
			}
			return l.presence[len(l.presence)-1]
		}
		check := func(what string, off time.Duration) {
			t.Helper()
			got, at := stored(), shared().Add(off)
			if want := (catalog.Presence{ClusterUID: one.UID, SeenAt: at, ConnectedUntil: at.Add(3 * time.Minute)}); got != want {
				t.Errorf("%s: got %+v stored, want %+v", what, got, want)
			}
		}
		check("five minutes ahead", 0)
		monitor := func(long time.Duration) {
			ctx, stop := context.WithTimeout(t.Context(), long)
			defer stop()
			_ = v.MonitorPresence(ctx)
		}
		const slight = 900 * time.Millisecond
		l.behind += slight
		monitor(4 * time.Minute)
		checkTwo(false)
		check("a little further ahead", slight)
		l.behind = 0
		monitor(2 * time.Minute)
		check("repaired", 0)
	})
}

// TestArrivalsAreStoredSoon opens the streams of two agents at once, as after a restart of the hub,
// and a second later they count as connected at the other replicas, too. One that keeps polling
// costs no further writes.
func TestArrivalsAreStoredSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v, l, _ := newView(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- v.MonitorArrivals(ctx) }()
		one, _ := v.Catalog.Cluster("one")
		two, _ := v.Catalog.Cluster("two")
		defer v.Presence.Opened(one)()
		<-time.After(300 * time.Millisecond)
		defer v.Presence.Opened(two)()
		<-time.After(time.Second)
		synctest.Wait()
		stored := map[string]bool{}
		for _, p := range l.presence {
			stored[p.ClusterUID] = p.ConnectedUntil.After(time.Now())
		}
		if len(l.presence) != 2 || !stored["uid-one"] || !stored["uid-two"] {
			t.Errorf("got %+v stored after a second, want both agents connected", l.presence)
		}
		for range 30 {
			v.Presence.Heard(one)
			<-time.After(time.Second)
		}
		if len(l.presence) != 2 {
			t.Errorf("got %d writes, want no more: neither agent has come again", len(l.presence))
		}
		stop()
		<-done
	})
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	if _, err := v.Admit(t.Context(), "one", admission.IdentityUID("uid-one", 0)); !errors.Is(err, fleet.ErrIdentityEnded) {
		t.Errorf("a cluster that never enrolled: got %v", err)
	}
	enrolled := cluster("two")
	enrolled.Agent = catalog.Agent{PublicKey: make([]byte, 32), KeyGeneration: 2}
	l.add(catalog.Changes{Clusters: []*catalog.Cluster{enrolled}})
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]bool{
		admission.IdentityUID("uid-two", 2): true, admission.IdentityUID("uid-two", 1): false,
		admission.IdentityUID("uid of an older two", 2): false, "uid-two": false, "": false,
	} {
		if _, err := v.Admit(t.Context(), "two", uid); (err == nil) != want || err != nil && !errors.Is(err, fleet.ErrIdentityEnded) {
			t.Errorf("%q: got %v, want it admitted: %v", uid, err, want)
		}
	}
	l.down = catalog.ErrUnavailable
	if _, err := v.Admit(t.Context(), "two", admission.IdentityUID("uid-two", 2)); err != nil {
		t.Errorf("a cluster that is known, without the store: got %v", err)
	}
	if _, err := v.Admit(t.Context(), "three", admission.IdentityUID("uid-three", 1)); !errors.Is(err, catalog.ErrUnavailable) || errors.Is(err, fleet.ErrIdentityEnded) {
		t.Errorf("a cluster that only the store may know: got %v, want that the store does not answer", err)
	}
}
