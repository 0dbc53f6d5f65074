// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fleet is one that tests fill.
type fleet struct {
	hub *fanout.Hub[catalog.Key]

	mu        sync.Mutex
	rows      map[catalog.Key]*find.Row
	described int
}

func newFleet(limit int) *fleet {
	return &fleet{hub: fanout.NewHub[catalog.Key](limit), rows: map[catalog.Key]*find.Row{}}
}

func (f *fleet) Keys() []catalog.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []catalog.Key
	for key := range f.rows {
		keys = append(keys, key)
	}
	return keys
}

func (f *fleet) Describe(key catalog.Key) *find.Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.described++
	return f.rows[key]
}

func (f *fleet) Watch() *fanout.Watcher[catalog.Key] { return f.hub.WatchAll() }

func (f *fleet) put(rows ...*find.Row) {
	for _, row := range rows {
		row.Durations = find.DurationsOf(row.Report)
		f.mu.Lock()
		f.rows[row.Object.Key()] = row
		f.mu.Unlock()
		f.hub.Publish(row.Object.Key())
	}
}

func (f *fleet) remove(key catalog.Key) {
	f.mu.Lock()
	delete(f.rows, key)
	f.mu.Unlock()
	f.hub.Publish(key)
}

// service returns a row with a phase.
func service(name, cluster string, phase catalog.Phase) *find.Row {
	row := &find.Row{
		Object: &catalog.Service{
			Metadata: catalog.Metadata{Name: name + "@" + cluster, CreatedAt: now.Add(-time.Hour), Labels: map[string]string{"app": name}},
			Spec:     catalog.ServiceSpec{Cluster: cluster, Sources: []catalog.Source{{Repository: "shop.demo", Path: "apps/" + name, Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}}},
		},
		Phase: string(phase), Since: now.Add(-time.Minute),
		Sources: []catalog.Resolution{{Snapshot: &catalog.Snapshot{Commit: "abcdef01", Version: "v1.2.3"}}},
		Report:  &catalog.ServiceReport{AppliedCommits: []string{"12345678"}, AppliedVersions: []string{"v1.2.2"}},
	}
	if phase == catalog.PhaseFailed {
		row.Problem = &catalog.Problem{Reason: reason.ApplyRejected, Message: "Quota is used up"}
	}
	return row
}

func cluster(name, region string) *find.Row {
	return &find.Row{Object: &catalog.Cluster{Metadata: catalog.Metadata{Name: name, Labels: map[string]string{"region": region}}}, Phase: find.Connected}
}

// everything sees all, and the labels of the clusters that are given.
func everything(clusters ...*find.Row) find.Viewer {
	return find.Viewer{LabelsOf: func(name string) map[string]string {
		for _, row := range clusters {
			if row.Object.Meta().Name == name {
				return row.Object.Meta().Labels
			}
		}
		return nil
	}}
}

func mustQuery(t testing.TB, p find.Params) *find.Query {
	t.Helper()
	q, err := find.NewQuery(p)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func names(rows []*find.Row) string {
	var all []string
	for _, row := range rows {
		all = append(all, row.Object.Meta().Name)
	}
	return strings.Join(all, " ")
}

func TestFieldsOfServices(t *testing.T) {
	t.Parallel()
	f, clusters := newFleet(0), []*find.Row{cluster("one", "eu"), cluster("shop.two", "us")}
	f.put(clusters...)
	pinned := service("b", "one", catalog.PhaseFailed)
	pinned.Pin = &catalog.Pin{Revision: 3}
	f.put(service("a", "one", catalog.PhaseHealthy), pinned, service("shop.c", "shop.two", catalog.PhaseUnknown))
	index := find.NewIndex(f)
	for text, want := range map[string]string{
		"":                        "a@one b@one shop.c@shop.two",
		"name=c":                  "shop.c@shop.two",
		"project=shop":            "shop.c@shop.two",
		"label.app=b":             "b@one",
		"phase=failed":            "b@one",
		"phase!=failed,healthy":   "shop.c@shop.two",
		"phase=unknown":           "shop.c@shop.two",
		"reason=APPLY_REJECTED":   "b@one",
		"reason!=*":               "a@one shop.c@shop.two",
		"message~quota":           "b@one",
		"cluster=shop/two":        "shop.c@shop.two",
		"cluster=default/one":     "a@one b@one",
		"cluster!=default/one":    "shop.c@shop.two",
		"cluster=two":             "",
		"cluster.label.region=eu": "a@one b@one",
		"namespace=default":       "a@one b@one shop.c@shop.two",
		"repository=shop/demo":    "a@one b@one shop.c@shop.two",
		"path=apps/a":             "a@one",
		"ref=main name=a":         "a@one",
		"commit=abcdef name=a":    "a@one",
		"commit=1234 name=a":      "a@one",
		"applied=1234 name=a":     "a@one",
		"applied=abcdef":          "",
		"desired=abcdef name=a":   "a@one",
		"desired=1234":            "",
		"version=v1.2.* name=b":   "b@one",
		"version!=v1.2.3":         "",
		"synced=false paused=false drifted=false name=a": "a@one",
		"pinned=true":  "b@one",
		"pinned=false": "a@one shop.c@shop.two",
		"age>30m":      "a@one b@one shop.c@shop.two",
		"since>30m":    "",
		"QUOTA":        "b@one",
		"shop/two":     "shop.c@shop.two",
	} {
		result, err := mustQuery(t, find.Params{Kind: catalog.KindService, Filter: text}).Run(t.Context(), index.Snapshot(catalog.KindService), everything(clusters...), now)
		if err != nil || names(result.Rows) != want {
			t.Errorf("%q: got %q, %v, want %q", text, names(result.Rows), err, want)
		}
	}
}

func TestWindowsOrdersAndCounts(t *testing.T) {
	t.Parallel()
	f := newFleet(0)
	for i := range 10 {
		row := service(fmt.Sprintf("s%d", i), fmt.Sprintf("c%d", i%2), []catalog.Phase{catalog.PhaseHealthy, catalog.PhaseFailed, catalog.PhaseDegraded}[i%3])
		row.Since = now.Add(time.Duration(i) * time.Second)
		f.put(row)
	}
	index := find.NewIndex(f)
	run := func(p find.Params) *find.Result {
		t.Helper()
		p.Kind = catalog.KindService
		result, err := mustQuery(t, p).Run(t.Context(), index.Snapshot(catalog.KindService), everything(), now)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	for _, c := range []struct {
		p     find.Params
		want  string
		total int
	}{
		{find.Params{Size: 2}, "s0@c0 s1@c1", 10},
		{find.Params{Size: 2, Offset: 9}, "s9@c1", 10},
		{find.Params{Size: 2, Offset: 90}, "", 10},
		{find.Params{Size: 2, Order: "-name"}, "s9@c1 s8@c0", 10},
		{find.Params{Size: 2, Order: "since", Offset: 1}, "s8@c0 s7@c1", 10},
		{find.Params{Size: 2, Order: "-since"}, "s0@c0 s1@c1", 10},
		{find.Params{Size: 4, Order: "severity"}, "s1@c1 s4@c0 s7@c1 s2@c0", 10},
		{find.Params{Size: 2, Order: "cluster", Offset: 4}, "s8@c0 s1@c1", 10},
		{find.Params{Cluster: "c1", Filter: "phase=failed"}, "s1@c1 s7@c1", 2},
		{find.Params{Project: "other"}, "", 0},
	} {
		if got := run(c.p); names(got.Rows) != c.want || got.Total != c.total {
			t.Errorf("%+v: got %q of %d, want %q of %d", c.p, names(got.Rows), got.Total, c.want, c.total)
		}
	}
	got := run(find.Params{Size: 1, GroupBy: []string{"phase", "cluster", "label.app"}})
	if text := fmt.Sprint(got.Groups[:2]); text != "[{phase [{HEALTHY 4} {DEGRADED 3} {FAILED 3}] 0} {cluster [{c0 5} {c1 5}] 0}]" || len(got.Groups[2].Counts) != 10 {
		t.Errorf("got %s", text)
	}
}

func TestQueriesAreChecked(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]find.Params{
		"kind":        {Kind: "Pod"},
		"filter":      {Kind: catalog.KindUser, Filter: "phase=failed"},
		"order":       {Kind: catalog.KindUser, Order: "severity"},
		"offset":      {Kind: catalog.KindService, Offset: -1},
		"size":        {Kind: catalog.KindService, Size: -1},
		"cluster":     {Kind: catalog.KindCluster, Cluster: "c"},
		"group_by":    {Kind: catalog.KindService, GroupBy: []string{"phase", "phase", "phase", "phase", "phase"}},
		"group_by[0]": {Kind: catalog.KindService, GroupBy: []string{"age"}},
	} {
		_, err := find.NewQuery(p)
		if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != want {
			t.Errorf("%+v: got %v, want an error of %s", p, err, want)
		}
	}
}

// TestIndexReadsWhatChanged counts the reads.
func TestIndexReadsWhatChanged(t *testing.T) {
	t.Parallel()
	f := newFleet(50)
	for i := range 40 {
		f.put(service(fmt.Sprintf("s%02d", i), "c", catalog.PhaseHealthy))
	}
	index := find.NewIndex(f)
	q := mustQuery(t, find.Params{Kind: catalog.KindService, Filter: "phase=failed"})
	selected := func() string {
		result, err := q.Run(t.Context(), index.Snapshot(catalog.KindService), everything(), now)
		if err != nil {
			t.Fatal(err)
		}
		return names(result.Rows)
	}
	if got := selected(); got != "" || f.described != 40 {
		t.Fatalf("got %q after %d reads", got, f.described)
	}
	before := index.Snapshot(catalog.KindService)
	f.put(service("s07", "c", catalog.PhaseFailed), service("s08", "c", catalog.PhaseFailed), service("s07", "c", catalog.PhaseFailed))
	f.remove(catalog.Key{Kind: catalog.KindService, Name: "s08@c"})
	if got := selected(); got != "s07@c" || f.described != 42 {
		t.Errorf("got %q after %d reads, want s07@c after 42", got, f.described)
	}
	if old, err := q.Run(t.Context(), before, everything(), now); err != nil || len(old.Rows) != 0 {
		t.Errorf("an older snapshot changed: %v, %v", names(old.Rows), err)
	}
	if generation := index.Generation(); generation != index.Generation() || f.described != 42 {
		t.Errorf("an idle fleet is read")
	}
	for i := range 60 { // more than the watcher holds
		f.put(service(fmt.Sprintf("t%02d", i), "c", catalog.PhaseFailed))
	}
	if got := selected(); strings.Count(got, "t") != 60 {
		t.Errorf("after too many changes: got %q", got)
	}
}

// TestViewersShare asks for the same with the same rights, and with others.
func TestViewersShare(t *testing.T) {
	t.Parallel()
	f := newFleet(0)
	f.put(service("a", "one", catalog.PhaseFailed), service("b", "one", catalog.PhaseFailed))
	views := find.NewViews(find.NewIndex(f))
	all := &authz.Rights{}
	q, other := mustQuery(t, find.Params{Kind: catalog.KindService}), mustQuery(t, find.Params{Kind: catalog.KindService, Filter: "name=a"})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if result, err := views.Run(context.WithoutCancel(t.Context()), q, all, func() find.Viewer { return everything() }); err != nil || result.Total != 2 {
				t.Errorf("got %+v, %v", result, err)
			}
		})
	}
	group.Wait()
	if n := views.Runs(); n != 1 {
		t.Errorf("20 viewers cost %d runs", n)
	}
	if result, err := views.Run(t.Context(), other, all, func() find.Viewer { return everything() }); err != nil || result.Total != 1 || views.Runs() != 2 {
		t.Errorf("got %+v, %v", result, err)
	}
	f.put(service("c", "one", catalog.PhaseFailed))
	if result, err := views.Run(t.Context(), q, all, func() find.Viewer { return everything() }); err != nil || result.Total != 3 {
		t.Errorf("after a change: got %+v, %v", result, err)
	}
}

// TestSecQueriesSeeNothingHidden compares filters with what a viewer may not see: Sees comes first, and
// the filter is not compared with what it refuses.
func TestSecQueriesSeeNothingHidden(t *testing.T) {
	t.Parallel()
	f, hidden := newFleet(0), cluster("two", "secret")
	f.put(hidden, service("a", "one", catalog.PhaseFailed), service("b", "two", catalog.PhaseFailed), service("c", "two", catalog.PhaseHealthy))
	index := find.NewIndex(f)
	asked := []string{}
	viewer := find.Viewer{
		Sees: func(o catalog.Object) bool { return o.Meta().Name != "b@two" },
		LabelsOf: func(name string) map[string]string {
			asked = append(asked, name)
			return nil // sees no cluster
		},
	}
	for text, want := range map[string]string{
		"phase=failed": "a@one", "cluster.label.region=*": "", "cluster.label.region!=secret": "a@one c@two", "name=b": "", "": "a@one c@two",
	} {
		q := mustQuery(t, find.Params{Kind: catalog.KindService, Filter: text, GroupBy: []string{"phase", "cluster.label.region", "name"}})
		result, err := q.Run(t.Context(), index.Snapshot(catalog.KindService), viewer, now)
		if err != nil || names(result.Rows) != want || result.Total != len(result.Rows) {
			t.Errorf("%q: got %q of %d, %v, want %q", text, names(result.Rows), result.Total, err, want)
		}
		counted := 0
		for _, group := range result.Groups[0].Counts {
			counted += group.N
		}
		if counted != len(result.Rows) || len(result.Groups[1].Counts) != 0 || slices.ContainsFunc(result.Groups[2].Counts, func(c find.Count) bool { return c.Value == "b" }) {
			t.Errorf("%q: counts tell of what is hidden: %+v", text, result.Groups)
		}
	}
	if n := len(asked); n == 0 {
		t.Error("no labels were asked for")
	}
}

// TestEveryKindCanBeFound enforces that each kind declares the fields of its objects.
func TestEveryKindCanBeFound(t *testing.T) {
	t.Parallel()
	for _, kind := range catalog.Kinds() {
		if _, err := find.NewQuery(find.Params{Kind: kind, Order: "-age", Filter: "age>1h"}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestACommitOfTwoSourcesCountsOnce has a service with two folders of one repository.
func TestACommitOfTwoSourcesCountsOnce(t *testing.T) {
	t.Parallel()
	row := service("a", "one", catalog.PhaseHealthy)
	row.Sources = append(row.Sources, row.Sources[0], catalog.Resolution{Snapshot: &catalog.Snapshot{Commit: "0f0f0f0f"}})
	row.Report.AppliedCommits = []string{"12345678", "12345678", "abcdef01"}
	f := newFleet(0)
	f.put(row)
	q := mustQuery(t, find.Params{Kind: catalog.KindService, GroupBy: []string{"desired", "applied"}})
	got, err := q.Run(t.Context(), find.NewIndex(f).Snapshot(catalog.KindService), everything(), now)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(got.Groups); text != "[{desired [{0f0f0f0f 1} {abcdef01 1}] 0} {applied [{12345678 1} {abcdef01 1}] 0}]" {
		t.Errorf("got %s", text)
	}
}
