// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// derivedView is a view of a log, which derives some things at once.
type derivedView struct {
	*fleet.View

	log   *log
	plans *fanout.Hub[string]
}

func newDerivedView(l *log, atOnce fleet.AtOnce) *derivedView {
	plans := fanout.NewHub[string](0)
	return &derivedView{log: l, plans: plans, View: fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), AtOnce: atOnce,
		Plans: plans, Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})}
}

func (v *derivedView) add(t interface{ Fatal(args ...any) }, changes catalog.Changes) {
	v.log.add(changes)
	if err := v.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// derive runs a deriver until nothing is pending.
func (v *derivedView) derive(t *testing.T, timeout time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = fleet.Deriver{View: v.View, Slice: time.Minute, Timeout: timeout}.Run(ctx) })
	await.True(t, "the deriver", v.isDone)
	stop()
	running.Wait()
}

func (v *derivedView) isDone() bool {
	pending, _ := fleet.Unfinished(v.Catalog)
	return pending == 0
}

// problems are the reasons of all global services.
func (v *derivedView) problems() []reason.Reason {
	var all []reason.Reason
	objects, _ := v.Records.List(fleet.Query{Kind: catalog.KindGlobalService, Limit: 1000})
	for _, object := range objects {
		if p := v.Records.Describe(object.Object).Global.Problem; p != nil {
			all = append(all, p.Reason)
		}
	}
	return all
}

// namespaces are the namespaces of all services; a service that waits has "waits".
func (v *derivedView) namespaces() string {
	var all []string
	objects, _ := v.Records.List(fleet.Query{Kind: catalog.KindService, Limit: 1000})
	for _, object := range objects {
		service, ok := object.Object.(*catalog.Service)
		switch {
		case !ok:
		case service.ConfigWaits:
			all = append(all, service.Name+":waits")
		default:
			all = append(all, service.Name+":"+service.Spec.Wanted().Namespace)
		}
	}
	return strings.Join(all, " ")
}

// costly is a parameter of some 500 units that makes the text n.
func costly(n string) string {
	return fmt.Sprintf("${{ lists.range(100).all(a, a >= 0) ? '%s' : '' }}", n)
}

func globalIn(namespace string, generation int64, change ...func(*catalog.GlobalServiceSpec)) *catalog.GlobalService {
	g := &catalog.GlobalService{
		Metadata: catalog.Metadata{Name: "web", UID: "uid-web", Generation: generation},
		Spec: catalog.GlobalServiceSpec{
			Clusters: catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}},
			Template: catalog.ServiceTemplate{Spec: catalog.ServiceSpec{
				Sources: []catalog.Source{app}, Options: &syncpolicy.Options{Namespace: namespace},
			}},
		},
	}
	for _, c := range change {
		c(&g.Spec)
	}
	return g
}

func globals(all ...*catalog.GlobalService) catalog.Changes {
	return catalog.Changes{FleetChanges: catalog.FleetChanges{Globals: all}}
}

// cheapAtOnce derives everything at once that costs less than a costly parameter for two clusters.
var cheapAtOnce = fleet.AtOnce{Pairs: 10, Units: 100}

// TestSecUndecidedServicesStay makes an edit whose services are too much to be derived with it. Until the
// deriver has done that, clusters keep what they have, their agents are given no plan, and the edit is not
// held up.
func TestSecUndecidedServicesStay(t *testing.T) {
	t.Parallel()
	v := newDerivedView(&log{}, cheapAtOnce)
	changes := globals(globalIn("first", 1))
	changes.Clusters = []*catalog.Cluster{cluster("one"), cluster("two")}
	v.add(t, changes)
	const first = "web@one:first web@two:first"
	if got := v.namespaces(); got != first || fleet.IsUndecided(v.View, "one") || len(v.problems()) != 0 {
		t.Fatalf("got %s with %v, want everything derived with the edit", got, v.problems())
	}
	v.add(t, globals(globalIn(costly("second"), 2)))
	v.add(t, catalog.Changes{Clusters: []*catalog.Cluster{cluster("three")}})
	if got := v.namespaces(); got != first {
		t.Errorf("got %s before the deriver ran, want %s", got, first)
	}
	for _, name := range []string{"one", "two", "three"} {
		if !fleet.IsUndecided(v.View, name) {
			t.Errorf("the agent of %s would be given a plan that another replica may have gone beyond", name)
		}
	}
	if got := v.problems(); !slices.Equal(got, []reason.Reason{reason.DerivationPending}) {
		t.Errorf("got %v, want that derivation is pending", got)
	}
	v.derive(t, time.Hour)
	if got := v.namespaces(); got != "web@one:second web@three:second web@two:second" || fleet.IsUndecided(v.View, "one") || len(v.problems()) != 0 {
		t.Errorf("got %s with %v, want everything derived", got, v.problems())
	}
}

// TestSecLateDerivationKeepsServices has a global service take longer than it may. Existing
// services stay, a cluster without one waits, and a later try brings all of them up to date.
func TestSecLateDerivationKeepsServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newDerivedView(&log{}, cheapAtOnce)
		changes := globals(globalIn("first", 1))
		changes.Clusters = []*catalog.Cluster{cluster("one")}
		v.add(t, changes)
		v.add(t, globals(globalIn(costly("second"), 2)))
		v.add(t, catalog.Changes{Clusters: []*catalog.Cluster{cluster("two")}})
		v.derive(t, -1)
		if got := v.namespaces(); got != "web@one:first web@two:waits" || fleet.IsUndecided(v.View, "one") || fleet.IsUndecided(v.View, "two") {
			t.Errorf("got %s, want that one keeps what it has and two waits", got)
		}
		if got := v.problems(); !slices.Equal(got, []reason.Reason{reason.DerivationTooExpensive}) {
			t.Errorf("got %v, want the reason", got)
		}
		for _, member := range (fleet.Globals{Catalog: v.View.Catalog}).Members("web", "") {
			if member.Problem == nil || member.Problem.Reason != reason.DerivationTooExpensive {
				t.Errorf("%s: got %v, want the reason", member.Cluster, member.Problem)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = fleet.NewDeriver(v.View).Run(ctx) }()
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if got := v.namespaces(); got != "web@one:second web@two:second" || len(v.problems()) != 0 {
			t.Errorf("got %s with %v after the next try", got, v.problems())
		}
	})
}

// TestSecStartServesBeforeDerivation loads more than is derived at once. The view answers, holds the plans of
// the clusters concerned back, refuses edits that it cannot review, and keeps the reports of services that
// it does not know yet.
func TestSecStartServesBeforeDerivation(t *testing.T) {
	t.Parallel()
	l := &log{}
	all := globals(globalIn(costly("late"), 1, func(s *catalog.GlobalServiceSpec) {
		s.Clusters = catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{Names: []string{"one", "two"}}}
	}))
	all.Clusters = []*catalog.Cluster{cluster("one"), cluster("two"), cluster("free")}
	all.Services = []*catalog.Service{service("plain", "free", app)}
	uid := catalog.DerivedUID("uid-web", all.Clusters[0].UID)
	l.derived = map[string][]catalog.StoredReport{
		all.Clusters[0].UID: {{Service: "web@one", ServiceUID: uid, Report: &catalog.ServiceReport{Phase: catalog.PhaseHealthy}}},
	}
	l.add(all)
	v := newDerivedView(l, cheapAtOnce)
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Catalog.Cluster("one"); !ok || fleet.IsUndecided(v.View, "free") || !fleet.IsUndecided(v.View, "one") {
		t.Error("want that the view answers, and holds back the plans of selected clusters alone")
	}
	if !v.Catalog.Wanted(app) {
		t.Error("what services read that are not derived yet would be pruned")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fleet.AwaitSettled(ctx, v.View); err == nil {
		t.Error("what would take absent services for deleted may begin")
	}
	review := fleet.Derivations{View: v.View}
	global := all.Globals[0]
	for _, edit := range []catalog.Edited{{Deleted: []catalog.Object{global}}, {Put: []catalog.Object{global}}, {Put: []catalog.Object{all.Clusters[0]}}} {
		if err := review.Review(edit); err == nil {
			t.Errorf("%v: an edit was accepted that nobody can review yet", edit)
		}
	}
	v.derive(t, time.Hour)
	if err := fleet.AwaitSettled(t.Context(), v.View); err != nil {
		t.Error(err)
	}
	got, ok := v.Catalog.Service("web@one")
	if !ok || got.UID != uid || v.Records.Describe(got).Service.Report == nil {
		t.Errorf("got %v, want the derived service with the report that was stored", got)
	}
	if err := review.Review(catalog.Edited{Put: []catalog.Object{global}}); err != nil {
		t.Errorf("got %v, want that the edit is reviewed by now", err)
	}
}

// TestSecReviewIsBounded reviews a selection whose condition costs so much for each cluster that
// all of them together exceed what a transaction may wait for, and another person's beside it.
func TestSecReviewIsBounded(t *testing.T) {
	t.Parallel()
	v := newDerivedView(&log{}, fleet.AtOnce{Pairs: 1000, Units: 1})
	changes := globals(globalIn("first", 1))
	for i := range 400 {
		changes.Clusters = append(changes.Clusters, cluster(fmt.Sprintf("c%03d", i)))
	}
	v.add(t, changes)
	edited := globalIn("first", 2, func(s *catalog.GlobalServiceSpec) {
		s.Clusters.When = "lists.range(800).all(a, a >= 0)" // some 4,000 units
	})
	err := fleet.Derivations{View: v.View}.Review(catalog.Edited{Put: []catalog.Object{edited}})
	if err == nil || !strings.Contains(err.Error(), "cost too much") {
		t.Errorf("got %v, want that the conditions cost too much", err)
	}
	edited.Spec.Clusters.When = "self.name.startsWith('c')"
	if err := (fleet.Derivations{View: v.View}).Review(catalog.Edited{Put: []catalog.Object{edited}}); err != nil {
		t.Errorf("got %v for a usual condition", err)
	}
}

// TestDeriverEndsWhereAtOnceEnds makes random edits of two views, of which one derives everything with the
// edit and the other one leaves it to a deriver that runs meanwhile.
func TestDeriverEndsWhereAtOnceEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := &log{}
		atOnce, later := newDerivedView(l, fleet.AtOnce{Pairs: 1000, Units: 1 << 40}), newDerivedView(l, fleet.AtOnce{Pairs: 1, Units: 1})
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { _ = fleet.Deriver{View: later.View, Slice: 1, Timeout: time.Hour}.Run(ctx) })
		existing := map[catalog.Key]string{}
		for i := range rapid.IntRange(1, 12).Draw(rt, "edits") {
			var changes catalog.Changes
			uid, generation := fmt.Sprint("uid", i), int64(i+1)
			put := func(key catalog.Key) string {
				if known, ok := existing[key]; ok {
					return known
				}
				existing[key] = uid
				return uid
			}
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				next := cluster(rapid.SampledFrom([]string{"a", "b", "c", "p.d"}).Draw(rt, "cluster"))
				next.Labels = map[string]string{"region": rapid.SampledFrom([]string{"eu", "us"}).Draw(rt, "region")}
				next.UID = put(next.Key())
				changes.Clusters = append(changes.Clusters, next)
			case 1:
				next := globalIn("${{ self.labels.region }}", generation, func(s *catalog.GlobalServiceSpec) {
					s.Clusters.When = rapid.SampledFrom([]string{"", "self.labels.region == 'eu'", "self.name != 'a'"}).Draw(rt, "when")
				})
				next.Name = rapid.SampledFrom([]string{"web", "p.web"}).Draw(rt, "global")
				next.UID = put(next.Key())
				changes.Globals = append(changes.Globals, next)
			case 2:
				next := &catalog.Project{Metadata: catalog.Metadata{Name: rapid.SampledFrom([]string{"default", "p"}).Draw(rt, "project")}}
				next.UID = put(next.Key())
				if rapid.Bool().Draw(rt, "limited") {
					next.Spec.Limits.Clusters = syncpolicy.AllowList{"a"}
				}
				if rapid.Bool().Draw(rt, "shared") {
					next.Spec.Shares = []catalog.ProjectShare{{Projects: catalog.Selection{All: true}, Clusters: catalog.Selection{All: true}}}
				}
				changes.Projects = append(changes.Projects, next)
			case 3:
				next := service("web@a", "a", app)
				if known, ok := existing[next.Key()]; ok {
					delete(existing, next.Key())
					changes.Deleted = append(changes.Deleted, catalog.Tombstone{Key: next.Key(), UID: known})
					break
				}
				next.UID = put(next.Key())
				changes.Services = append(changes.Services, next)
			}
			l.add(changes)
			for _, v := range []*derivedView{atOnce, later} {
				if err := v.Refresh(context.Background()); err != nil {
					rt.Fatal(err)
				}
			}
		}
		await.True(t, "the deriver", later.isDone)
		if got, want := later.namespaces(), atOnce.namespaces(); got != want {
			rt.Fatalf("got %s, want %s", got, want)
		}
	})
}

// TestSecReportsShareOneBudget judges the reports of many agents of which a transaction waits. A condition that
// costs much is evaluated for the first of them alone, and decides nothing about another project's condition.
func TestSecReportsShareOneBudget(t *testing.T) {
	t.Parallel()
	const reports = 256
	v := newDerivedView(&log{}, cheapAtOnce)
	costly := globalIn("web", 1, func(s *catalog.GlobalServiceSpec) {
		s.Clusters.When = "lists.range(800).all(a, a >= 0)" // some 4,000 units
	})
	cheap := globalIn("cheap", 1, func(s *catalog.GlobalServiceSpec) { s.Clusters.When = "self.kubernetes.minor < 40" })
	cheap.Name, cheap.UID = "shop/cheap", "uid-cheap"
	v.add(t, globals(costly, cheap))
	var changes []catalog.FactsChange
	for i := range reports {
		before := cluster(fmt.Sprint("c", i))
		before.Agent.Report.KubernetesVersion = "v1.33.0"
		after := *before
		after.Agent.Report.KubernetesVersion = "v1.34.0"
		changes = append(changes, catalog.FactsChange{Before: before, After: &after})
	}
	met := map[string]int{}
	for i, judgements := range (fleet.Members{View: v.View}).Judge(changes) {
		if len(judgements) != 2 {
			t.Fatalf("got %+v for report %d, want a judgement for each global service", judgements, i)
		}
		for _, j := range judgements {
			if j.IsMet {
				met[j.GlobalUID]++
			}
		}
	}
	if got := met["uid-web"]; got == 0 || got > reports/2 {
		t.Errorf("the costly condition was evaluated for %d of %d reports, want some", got, reports)
	}
	if got := met["uid-cheap"]; got != reports {
		t.Errorf("the other condition is met for %d of %d reports, want all", got, reports)
	}
}

// TestFirstTurnsAreShared has a view begin with many global services, which several workers derive.
func TestFirstTurnsAreShared(t *testing.T) {
	t.Parallel()
	v := newDerivedView(&log{}, fleet.AtOnce{Pairs: 1, Units: 1})
	first := catalog.Changes{Clusters: []*catalog.Cluster{cluster("berlin"), cluster("paris"), cluster("rome")}}
	for i := range 40 {
		g := globalIn("ns-${{ self.name }}", 1)
		g.Name, g.UID = fmt.Sprintf("web-%02d", i), fmt.Sprintf("uid-web-%02d", i)
		first.Globals = append(first.Globals, g)
	}
	v.log.add(first)
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pending, _ := fleet.Unfinished(v.Catalog); pending != 40 {
		t.Fatalf("%d global services are left to the deriver, want all 40", pending)
	}
	v.derive(t, time.Minute)
	services, _ := v.Records.List(fleet.Query{Kind: catalog.KindService, Limit: 1000})
	for _, object := range services {
		service, ok := object.Object.(*catalog.Service)
		if !ok || service.ConfigWaits || service.Spec.Wanted().Namespace != "ns-"+service.Spec.Cluster {
			t.Errorf("got %+v", object.Object)
		}
	}
	if len(services) != 120 {
		t.Errorf("got %d services, want 120", len(services))
	}
}

// TestPassesLeaveNothing replaces a cluster after services were derived for it, by a batch or by the deriver. Nothing
// holds the cluster as it was: a fleet's deriver would keep millions of services that way.
func TestPassesLeaveNothing(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]fleet.AtOnce{"batch": {Pairs: 1000, Units: 1 << 40}, "deriver": {Pairs: 1, Units: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newDerivedView(&log{}, atOnce)
			before := &catalog.Cluster{Metadata: catalog.Metadata{Name: "berlin", UID: "uid-berlin"}}
			held := weak.Make(before)
			v.add(t, catalog.Changes{Clusters: []*catalog.Cluster{before, cluster("paris")}})
			v.add(t, catalog.Changes{FleetChanges: catalog.FleetChanges{Globals: []*catalog.GlobalService{globalIn("ns-${{ self.name }}", 1)}}})
			v.derive(t, time.Minute)
			if got := v.namespaces(); got != "web@berlin:ns-berlin web@paris:ns-paris" {
				t.Fatalf("got %s", got)
			}
			next := *before
			next.ResourceVersion = 7
			v.log.changes = []catalog.Changes{{Revision: v.Catalog.Revision() + 1, Clusters: []*catalog.Cluster{&next}}}
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			v.derive(t, time.Minute)
			runtime.GC()
			if held.Value() != nil {
				t.Error("the cluster of before is still held")
			}
			runtime.KeepAlive(v)
		})
	}
}

// TestMembersHaveWhatIsTheirs derives services that have all in common except the catalog's facts
// about one of them: a request, a person's decision, a person's service of that name, a limit, a
// value of a back end.
func TestMembersHaveWhatIsTheirs(t *testing.T) {
	t.Parallel()
	derived := func(t *testing.T, before catalog.Changes, g *catalog.GlobalService) *derivedView {
		v := newDerivedView(&log{}, fleet.AtOnce{Pairs: 1, Units: 1})
		for _, name := range []string{"a", "b", "c", "d"} {
			before.Clusters = append(before.Clusters, cluster(name))
		}
		v.add(t, before)
		v.add(t, globals(g))
		v.derive(t, time.Hour)
		return v
	}
	service := func(v *derivedView, name string) *catalog.Service {
		found, ok := v.Catalog.Service("web@" + name)
		if !ok {
			t.Fatalf("no service in %s", name)
		}
		return found
	}
	uidIn := func(name string) string { return catalog.DerivedUID("uid-web", cluster(name).UID) }
	t.Run("decisions", func(t *testing.T) {
		t.Parallel()
		v := derived(t, catalog.Changes{FleetChanges: catalog.FleetChanges{Requests: []catalog.SyncRequest{
			{Service: "web@b", ServiceUID: uidIn("b"), GlobalUID: "uid-web", Request: "now"},
			{Service: "web@c", ServiceUID: uidIn("c"), GlobalUID: "uid-web", Exception: &catalog.Exception{Paused: true}},
		}}}, globalIn("apps", 1))
		for name, want := range map[string]struct {
			request  string
			isPaused bool
		}{"a": {}, "b": {request: "now"}, "c": {isPaused: true}, "d": {}} {
			if got := service(v, name); got.SyncRequest != want.request || got.Spec.Wanted().Paused != want.isPaused {
				t.Errorf("%s: got request %q, paused %v, want %+v", name, got.SyncRequest, got.Spec.Wanted().Paused, want)
			}
		}
	})
	t.Run("a person's service", func(t *testing.T) {
		t.Parallel()
		own, global := ownService("web@c", "c"), globalIn("apps", 1)
		v := derived(t, catalog.Changes{Services: []*catalog.Service{own}}, global)
		if p := fleet.GlobalProblem(v.View, global); service(v, "c").Derived != nil || service(v, "d").Derived == nil || p == nil {
			t.Errorf("got problem %v, want that the person's service stays, and that this is said", p)
		}
		v.add(t, catalog.Changes{Deleted: []catalog.Tombstone{{Key: own.Key(), UID: own.UID}}})
		v.derive(t, time.Hour)
		if p := fleet.GlobalProblem(v.View, global); service(v, "c").Derived == nil || p != nil {
			t.Errorf("got problem %v after the person's service was deleted, want a derived one", p)
		}
	})
	t.Run("a limit", func(t *testing.T) {
		t.Parallel()
		limited := catalog.DefaultProject()
		limited.Spec.Limits.Namespaces = syncpolicy.AllowList{"other"}
		v := derived(t, catalog.Changes{Projects: []*catalog.Project{limited}}, globalIn("apps", 1))
		if got := v.namespaces(); got != "web@a:waits web@b:waits web@c:waits web@d:waits" {
			t.Errorf("got %s, want that no service has a namespace that the project may not use", got)
		}
	})
	t.Run("values of a back end", func(t *testing.T) {
		t.Parallel()
		v := derived(t, catalog.Changes{}, globalIn("apps", 1, func(s *catalog.GlobalServiceSpec) {
			s.Template.Spec.Config = &catalog.Config{References: map[string]string{"KEY": "vault://shop/db#b"}}
		}))
		if got := v.namespaces(); got != "web@a:waits web@b:waits web@c:waits web@d:waits" {
			t.Errorf("got %s, want that all wait for the value", got)
		}
	})
}

func ownService(name, in string) *catalog.Service { return service(name, in, app) }
