// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// outlook drives a view whose services are under policies, and compares the view from reading the
// announced services again with the view of everything.
type outlook struct {
	log       *log
	view      *fleet.View
	announced *fanout.Watcher[catalog.Key]
	watch     drive.Watch
	// last are the services at the last look, by policy and path.
	last     map[string]map[string]drive.Seen
	clusters map[string]*catalog.Cluster
	services map[string]*catalog.Service
	policies map[string]*catalog.RolloutPolicy
	// ended are services that are gone.
	ended []*catalog.Service
	open  map[string]func()
	made  int
	// members and changes count what looks have seen.
	members, changes int
}

func newOutlook(t *rapid.T) *outlook {
	t.Helper()
	// The hub forgets what it holds of a slow watcher, which then reads everything.
	hub, l := fanout.NewHub[catalog.Key](60), &log{}
	o := &outlook{
		log: l, last: map[string]map[string]drive.Seen{}, clusters: map[string]*catalog.Cluster{}, services: map[string]*catalog.Service{},
		policies: map[string]*catalog.RolloutPolicy{}, open: map[string]func(){},
		view: fleet.New(fleet.Params{
			Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Plans: fanout.NewHub[string](0), Objects: hub,
			PollInterval: time.Second, AtOnce: fleet.AtOnce{Pairs: 2, Units: 1 << 20},
		}),
	}
	l.add(catalog.Changes{Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "demo", UID: "uid-demo"}}}})
	if err := o.view.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.announced, o.watch = hub.WatchAll(), fleet.Rollouts{View: o.view}.Watch()
	return o
}

func (o *outlook) uid() string {
	o.made++
	return fmt.Sprint("uid-", o.made)
}

func (o *outlook) put(t *rapid.T, change func(*catalog.Changes)) {
	t.Helper()
	c := catalog.Changes{}
	change(&c)
	o.log.add(c)
	if err := o.view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var (
	seenClusters = rapid.SampledFrom([]string{"c0", "c1", "team.c2"})
	seenNames    = rapid.SampledFrom([]string{"s0", "s1", "team.s2"})
	seenLabels   = rapid.SampledFrom([]map[string]string{nil, {"tier": "a"}, {"tier": "b"}})
	seenSources  = rapid.SampledFrom([]catalog.Source{{Repository: "demo", Path: "a"}, {Repository: "demo", Path: "b"}, {Repository: "demo", Path: "c"}})
)

func (o *outlook) putCluster(t *rapid.T) {
	name := seenClusters.Draw(t, "cluster")
	next := catalog.Cluster{Metadata: catalog.Metadata{Name: name, UID: o.uid()}}
	if last := o.clusters[name]; last != nil {
		next = *last
	}
	next.Labels = seenLabels.Draw(t, "labels")
	o.clusters[name] = &next
	o.put(t, func(c *catalog.Changes) { c.Clusters = []*catalog.Cluster{&next} })
}

// present stores presence that another replica has seen. It announces nothing.
func (o *outlook) present(t *rapid.T) {
	last := o.clusters[seenClusters.Draw(t, "cluster")]
	if last == nil {
		return
	}
	next := *last
	next.Agent.LastSeenAt, next.Agent.ConnectedUntil = catalog.Now(), time.Time{}
	if rapid.Bool().Draw(t, "connected") {
		next.Agent.ConnectedUntil = catalog.Now().Add(time.Hour)
	}
	o.clusters[next.Name] = &next
	o.put(t, func(c *catalog.Changes) { c.Clusters = []*catalog.Cluster{&next} })
}

// connect has a cluster's agent come to this replica, or go.
func (o *outlook) connect(t *rapid.T) {
	cluster := o.clusters[seenClusters.Draw(t, "cluster")]
	if cluster == nil {
		return
	}
	if closed := o.open[cluster.UID]; closed != nil {
		delete(o.open, cluster.UID)
		closed()
		return
	}
	o.open[cluster.UID] = o.view.Presence.Opened(cluster)
}

func (o *outlook) deleteCluster(t *rapid.T) {
	cluster := o.clusters[seenClusters.Draw(t, "cluster")]
	if cluster == nil {
		return
	}
	delete(o.clusters, cluster.Name)
	var stones []catalog.Tombstone
	for _, path := range slices.Sorted(maps.Keys(o.services)) {
		if s := o.services[path]; s.Spec.Cluster == cluster.Name {
			delete(o.services, path)
			o.ended = append(o.ended, s)
			stones = append(stones, catalog.Tombstone{Key: s.Key(), UID: s.UID})
		}
	}
	o.put(t, func(c *catalog.Changes) {
		c.Deleted = append(stones, catalog.Tombstone{Key: cluster.Key(), UID: cluster.UID})
	})
}

func (o *outlook) putService(t *rapid.T) {
	cluster := seenClusters.Draw(t, "cluster")
	if o.clusters[cluster] == nil {
		return
	}
	path := objectname.ServicePath(seenNames.Draw(t, "service"), cluster)
	next := &catalog.Service{Metadata: catalog.Metadata{Name: path, UID: o.uid(), Labels: seenLabels.Draw(t, "labels")}}
	next.Spec = catalog.ServiceSpec{
		Cluster: cluster, Sources: rapid.SliceOfN(seenSources, 1, 2).Draw(t, "sources"), Options: &syncpolicy.Options{Paused: rapid.IntRange(0, 4).Draw(t, "paused") == 0},
	}
	var stones []catalog.Tombstone
	if last := o.services[path]; last != nil && rapid.IntRange(0, 3).Draw(t, "again") > 0 {
		next.UID = last.UID
	} else if last != nil {
		o.ended, stones = append(o.ended, last), []catalog.Tombstone{{Key: last.Key(), UID: last.UID}}
	}
	o.services[path] = next
	o.put(t, func(c *catalog.Changes) { c.Services, c.Deleted = []*catalog.Service{next}, stones })
}

func (o *outlook) deleteService(t *rapid.T) {
	s := o.service(t)
	if s == nil {
		return
	}
	delete(o.services, s.Name)
	o.ended = append(o.ended, s)
	o.put(t, func(c *catalog.Changes) { c.Deleted = []catalog.Tombstone{{Key: s.Key(), UID: s.UID}} })
}

// service draws a service that a person wrote, or nil.
func (o *outlook) service(t *rapid.T) *catalog.Service {
	return o.services[objectname.ServicePath(seenNames.Draw(t, "service"), seenClusters.Draw(t, "cluster"))]
}

// putGlobal writes a global service. For more than two clusters its services are derived later,
// which does not happen here.
func (o *outlook) putGlobal(t *rapid.T) {
	global := &catalog.GlobalService{Metadata: catalog.Metadata{Name: "web", UID: "uid-web", Generation: int64(o.made)}}
	global.Spec.Clusters.All = true
	global.Spec.Template.Spec = catalog.ServiceSpec{Sources: []catalog.Source{seenSources.Draw(t, "source")}, Options: &syncpolicy.Options{}}
	o.put(t, func(c *catalog.Changes) { c.Globals = []*catalog.GlobalService{global} })
}

func (o *outlook) putPolicy(t *rapid.T) {
	name := rapid.SampledFrom([]string{"p0", "p1", "team.p2"}).Draw(t, "policy")
	next := &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: name, UID: name, CreatedAt: time.Unix(int64(len(name)), 0)}}
	next.Spec.Labels, next.Spec.ClusterLabels = seenLabels.Draw(t, "labels"), seenLabels.Draw(t, "cluster labels")
	o.policies[name] = next
	o.put(t, func(c *catalog.Changes) { c.Plain = []catalog.Plain{next} })
}

func (o *outlook) deletePolicy(t *rapid.T) {
	if len(o.policies) == 0 {
		return
	}
	p := o.policies[slices.Sorted(maps.Keys(o.policies))[0]]
	delete(o.policies, p.Name)
	o.put(t, func(c *catalog.Changes) { c.Deleted = []catalog.Tombstone{{Key: p.Key(), UID: p.UID}} })
}

// admit holds a service, pins it, or releases it. It may be gone.
func (o *outlook) admit(t *rapid.T) {
	var s *catalog.Service
	if len(o.ended) > 0 && rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		s = rapid.SampledFrom(o.ended).Draw(t, "ended")
	} else {
		s = o.service(t)
	}
	if s == nil {
		return
	}
	a := catalog.Admission{ServiceUID: s.UID, Service: s.Name}
	source := seenSources.Draw(t, "source")
	content := []catalog.HeldSource{{Source: source.Normal(), Snapshot: *good(contents.Draw(t, "content")).Snapshot}}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
	case 1:
		a.Pin = &catalog.Pin{Content: content}
	case 2:
		a.Content = content // of an earlier version
	default:
		a.Content, a.Spec = content, catalog.ServiceSpec{Sources: []catalog.Source{source}}.Staged()
	}
	o.put(t, func(c *catalog.Changes) { c.Admissions = []catalog.Admission{a} })
}

func (o *outlook) report(t *rapid.T) {
	s := o.service(t)
	if s == nil {
		return
	}
	stored := catalog.StoredReport{Service: s.Name, ServiceUID: s.UID, Report: &catalog.ServiceReport{ObservedSpecDigest: contents.Draw(t, "spec")}}
	o.put(t, func(c *catalog.Changes) { c.Reports = []catalog.StoredReport{stored} })
}

func (o *outlook) resolve(t *rapid.T) {
	next := good(contents.Draw(t, "content"))
	next.Snapshot.Commit = o.uid()
	o.view.Resolved(t.Context(), seenSources.Draw(t, "source").Normal(), next, nil)
}

// replaceRepository has another repository of the name, of whose sources nothing is known.
func (o *outlook) replaceRepository(t *rapid.T) {
	o.put(t, func(c *catalog.Changes) {
		c.Repositories = []*catalog.Repository{{Metadata: catalog.Metadata{Name: "demo", UID: o.uid()}}}
	})
}

func (o *outlook) limit(t *rapid.T) {
	project := &catalog.Project{Metadata: catalog.Metadata{Name: "team", UID: "uid-team"}}
	project.Spec.Limits.Namespaces = rapid.SampledFrom([]syncpolicy.AllowList{nil, {"team"}, {"team", "other"}}).Draw(t, "namespaces")
	o.put(t, func(c *catalog.Changes) { c.Projects = []*catalog.Project{project} })
}

func sorted(members []drive.Seen) []drive.Seen {
	return slices.SortedFunc(slices.Values(members), func(a, b drive.Seen) int { return cmp.Compare(a.Service.Name, b.Service.Name) })
}

// look compares both sights, and the changes that the first reports with the real ones.
func (o *outlook) look(t *rapid.T) {
	keys, lagged := o.announced.Take()
	got, want := o.watch.Look(keys, lagged), fleet.Rollouts{View: o.view}.LookOnce()
	if !reflect.DeepEqual(got.Policies, want.Policies) {
		t.Fatalf("got policies %v, want %v", got.Policies, want.Policies)
	}
	next := map[string]map[string]drive.Seen{}
	for _, policy := range want.Policies {
		a, b := got.Members[policy.UID], sorted(want.Members[policy.UID])
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || !reflect.DeepEqual(a[i], b[i]) {
				t.Fatalf("policy %s, service %d of %d:\ngot  %+v\nwant %+v", policy.Name, i, len(b), at(a, i), at(b, i))
			}
		}
		next[policy.UID] = map[string]drive.Seen{}
		for _, m := range a {
			next[policy.UID][m.Service.UID] = m
		}
		o.members += len(a)
		if changes, ok := got.Changes[policy.UID]; ok {
			o.changes += len(changes.Seen) + len(changes.Gone)
			wantChanges(t, changes, a, o.last[policy.UID], next[policy.UID])
		}
	}
	o.last = next
	byUID := func(a, b *catalog.Admission) int { return cmp.Compare(a.ServiceUID, b.ServiceUID) }
	slices.SortFunc(got.Uncovered, byUID)
	slices.SortFunc(want.Uncovered, byUID)
	if !slices.Equal(got.Uncovered, want.Uncovered) {
		t.Fatalf("got uncovered %v, want %v", got.Uncovered, want.Uncovered)
	}
}

func at(members []drive.Seen, i int) any {
	if i >= len(members) {
		return "nothing"
	}
	return members[i]
}

// wantChanges wants what differs between two looks to be among the changes.
func wantChanges(t *rapid.T, changes drive.Changes, members []drive.Seen, last, next map[string]drive.Seen) {
	t.Helper()
	for i, m := range members {
		if before, ok := last[m.Service.UID]; (!ok || !reflect.DeepEqual(before, m)) && !slices.Contains(changes.Seen, i) {
			t.Fatalf("%s is seen otherwise, and is not among %v", m.Service.Name, changes.Seen)
		}
	}
	for uid, m := range last {
		if _, ok := next[uid]; !ok && !slices.Contains(changes.Gone, uid) {
			t.Fatalf("%s is gone, and is not among %v", m.Service.Name, changes.Gone)
		}
	}
	for _, uid := range changes.Gone {
		if m, ok := next[uid]; ok {
			t.Fatalf("%s is there, and among those that are gone", m.Service.Name)
		}
	}
}

// TestLookingAgainSeesEverything runs random edits, reports, commits, admissions and outages.
func TestLookingAgainSeesEverything(t *testing.T) {
	t.Parallel()
	steps := []func(*outlook, *rapid.T){
		(*outlook).putCluster, (*outlook).present, (*outlook).connect, (*outlook).putService, (*outlook).deleteService, (*outlook).putGlobal,
		(*outlook).admit, (*outlook).report, (*outlook).resolve, (*outlook).replaceRepository, (*outlook).limit,
	}
	// These cause a read of everything, or leave little to see.
	seldom := []func(*outlook, *rapid.T){(*outlook).deleteCluster, (*outlook).putPolicy, (*outlook).deletePolicy}
	members, changes := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		o := newOutlook(t)
		for _, begin := range []func(*rapid.T){o.putPolicy, o.putCluster, o.putCluster, o.putService, o.putService, o.putService, o.look} {
			begin(t)
		}
		for range 400 { // rapid's own repetition ends where steps do nothing, and here some do not yet
			some := steps
			if rapid.IntRange(0, 19).Draw(t, "seldom") == 0 {
				some = seldom
			}
			some[rapid.IntRange(0, len(some)-1).Draw(t, "step")](o, t)
			if rapid.IntRange(0, 2).Draw(t, "look") == 0 {
				o.look(t)
			}
		}
		o.look(t)
		members, changes = members+o.members, changes+o.changes
	})
	if members == 0 || changes == 0 {
		t.Errorf("saw %d services under policies, and %d changes: too little happens to show anything", members, changes)
	}
}

// TestLooksSeeWholeEdits edits services together, again and again, while a leader reads the fleet.
// All that it sees of them at one time is of one edit: a rollout that began with a part of one
// would bring the rest in another one.
func TestLooksSeeWholeEdits(t *testing.T) {
	t.Parallel()
	const edits, services = 100, 50
	hub, l := fanout.NewHub[catalog.Key](0), &log{}
	view := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Plans: fanout.NewHub[string](0), Objects: hub,
		PollInterval: time.Second,
	})
	edit := func(n int) {
		c := catalog.Changes{Revision: view.Catalog.Revision() + 1}
		for i := range services {
			s := service(fmt.Sprintf("app-%d@one", i), "one", benchSource(0))
			s.Generation = int64(n)
			c.Services = append(c.Services, s)
		}
		if n == 1 {
			c.Clusters = []*catalog.Cluster{cluster("one")}
			c.Plain = []catalog.Plain{&catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves", UID: "waves"}}}
		}
		l.changes = []catalog.Changes{c}
		if err := view.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	edit(1)
	announced, leader := hub.WatchAll(), fleet.Rollouts{View: view}
	watch, done := leader.Watch(), make(chan struct{})
	go func() {
		defer close(done)
		for n := range edits {
			edit(n + 2)
		}
	}()
	looks := 0
	for isOver := false; !isOver; looks++ {
		select {
		case <-done:
			isOver = true // and look once more
		default:
		}
		var sight drive.Sight
		leader.Still(func() {
			keys, lagged := announced.Take()
			sight = watch.Look(keys, lagged)
		})
		seen := map[int64]int{}
		for _, member := range sight.Members["waves"] {
			seen[member.Service.Generation]++
		}
		if len(seen) != 1 {
			t.Fatalf("look %d saw services by generation %v, want all of one edit", looks, seen)
		}
	}
	if looks < 10 {
		t.Errorf("looked %d times during %d edits", looks, edits)
	}
}
