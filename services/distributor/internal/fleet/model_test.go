// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// eager is the view's model: it computes the plans of all clusters after every step, and keeps
// nothing else in mind than what they were.
type eager struct {
	clusters    map[string]*catalog.Cluster
	services    map[string]*catalog.Service
	resolutions map[catalog.Source]catalog.Resolution
	// asked are the clusters whose plan was asked for within the hour, with what they may read.
	asked map[string][]*plan.Plan
}

func (e *eager) plan(cluster string) *plan.Plan {
	var inputs []plan.Input
	for _, s := range e.services {
		if s.Spec.Cluster != cluster {
			continue
		}
		input := plan.Input{Service: s, IsWithheld: e.withheld(s)}
		for _, source := range s.Spec.Sources {
			input.Snapshots = append(input.Snapshots, e.resolutions[source.Normal()].Snapshot)
		}
		inputs = append(inputs, input)
	}
	var facts plan.Facts
	if c := e.clusters[cluster]; c != nil {
		facts.Labels = c.Labels
	}
	return plan.Compute(cluster, plan.ClusterPart{Facts: facts}, inputs, plan.Cause{})
}

// withheld reports whether the service's agent cannot carry it out. In this model only steps with
// Helm, and mounts, ask for more than the first agents can.
func (e *eager) withheld(s *catalog.Service) bool {
	has := func(word string) bool {
		c := e.clusters[s.Spec.Cluster]
		return c != nil && slices.Contains(c.Agent.Report.Capabilities, word)
	}
	hasMount := slices.ContainsFunc(s.Spec.Sources, func(source catalog.Source) bool { return source.Mount != "" })
	hasHelm := len(s.Spec.Options.Render) > 0
	return (hasMount || hasHelm) && !has("render:steps") || hasHelm && !has("render:helm")
}

// step notes the plans that a step replaced, and returns the clusters whose watchers are to be
// told.
func (e *eager) step() []string {
	var changed []string
	for cluster, history := range e.asked {
		next := e.plan(cluster)
		if next.Version == history[0].Version {
			history[0] = next
			continue
		}
		e.asked[cluster] = append([]*plan.Plan{next}, history[:min(len(history), 3)]...)
		changed = append(changed, cluster)
	}
	slices.Sort(changed)
	return changed
}

// machine drives a view and its model.
type machine struct {
	log   *log
	view  *fleet.View
	told  *fanout.Watcher[string]
	model eager
	// seen are the bundles that there ever were.
	seen map[plan.Bundle]bool
	uids int
}

func (m *machine) uid() string {
	m.uids++
	return fmt.Sprintf("uid-%d", m.uids)
}

func (m *machine) check(t *rapid.T, extra ...string) {
	t.Helper()
	want := append(m.model.step(), extra...)
	got, _ := m.told.Take()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), slices.Compact(got), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("clusters that are told (-want +got):\n%s", diff)
	}
}

func (m *machine) refresh(t *rapid.T, c catalog.Changes) {
	t.Helper()
	m.log.add(c)
	if err := m.view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var (
	clusterNames = rapid.SampledFrom([]string{"c0", "c1"})
	serviceNames = rapid.SampledFrom([]string{"s0", "s1", "s2"})
	sources      = rapid.SampledFrom([]catalog.Source{
		{Repository: "demo", Path: "a"}, {Repository: "demo", Path: "b/"}, {Repository: "demo", Path: "b", Root: "."}, {Repository: "demo", Path: "a", Mount: "m"},
	})
	contents = rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "5"})
)

func (m *machine) putService(t *rapid.T) {
	name := serviceNames.Draw(t, "service")
	s := &catalog.Service{Metadata: catalog.Metadata{Name: name, UID: m.uid(), Generation: 1}}
	if old := m.model.services[name]; old != nil {
		s.UID = old.UID
	}
	s.Spec.Cluster = clusterNames.Draw(t, "cluster")
	if m.model.clusters[s.Spec.Cluster] == nil {
		t.Skip("a service needs its cluster")
	}
	s.Spec.Sources = rapid.SliceOfN(sources, 1, 2).Draw(t, "sources")
	s.Spec.Options = &syncpolicy.Options{Paused: rapid.Bool().Draw(t, "paused")}
	if rapid.IntRange(0, 2).Draw(t, "steps") == 0 {
		s.Spec.Options.Render = []renderstep.Step{{Renderer: renderstep.Helm}}
	}
	m.model.services[name] = s
	m.refresh(t, catalog.Changes{Services: []*catalog.Service{s}})
	m.check(t)
}

func (m *machine) deleteService(t *rapid.T) {
	s := m.model.services[serviceNames.Draw(t, "service")]
	if s == nil {
		t.Skip("no such service")
	}
	delete(m.model.services, s.Name)
	m.refresh(t, catalog.Changes{Deleted: []catalog.Tombstone{{Key: s.Key(), UID: s.UID}}})
	m.check(t)
}

// putCluster creates a cluster, or deletes the one of that name with its services and creates
// another at once.
func (m *machine) putCluster(t *rapid.T) {
	name := clusterNames.Draw(t, "cluster")
	ended := m.bury(name)
	c := &catalog.Cluster{Metadata: catalog.Metadata{Name: name, UID: m.uid()}}
	m.model.clusters[name] = c
	var told []string
	if len(ended) > 0 {
		told = []string{name}
	}
	m.refresh(t, catalog.Changes{Deleted: ended, Clusters: []*catalog.Cluster{c}})
	m.check(t, told...)
}

// report has a cluster's agent report other capabilities, as after an upgrade or a downgrade, or
// changes the cluster's labels.
func (m *machine) report(t *rapid.T) {
	last := m.model.clusters[clusterNames.Draw(t, "cluster")]
	if last == nil {
		t.Skip("no such cluster")
	}
	next := *last
	next.Agent.Instance = "i"
	next.Agent.Report.AgentVersion = rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version")
	next.Agent.Report.Capabilities = rapid.SampledFrom([][]string{nil, {"overview"}, {"render:steps"}, {"render:helm", "render:steps"}}).Draw(t, "words")
	next.Labels = rapid.SampledFrom([]map[string]string{nil, {"a": "1"}, {"a": "2"}}).Draw(t, "labels")
	m.model.clusters[next.Name] = &next
	m.refresh(t, catalog.Changes{Clusters: []*catalog.Cluster{&next}})
	m.check(t)
}

func (m *machine) deleteCluster(t *rapid.T) {
	name := clusterNames.Draw(t, "cluster")
	ended := m.bury(name)
	if len(ended) == 0 {
		t.Skip("no such cluster")
	}
	m.refresh(t, catalog.Changes{Deleted: ended})
	m.check(t, name)
}

func (m *machine) bury(cluster string) []catalog.Tombstone {
	c := m.model.clusters[cluster]
	if c == nil {
		return nil
	}
	var stones []catalog.Tombstone
	for name, s := range m.model.services {
		if s.Spec.Cluster == cluster {
			delete(m.model.services, name)
			stones = append(stones, catalog.Tombstone{Key: s.Key(), UID: s.UID})
		}
	}
	delete(m.model.clusters, cluster)
	delete(m.model.asked, cluster)
	return append(stones, catalog.Tombstone{Key: c.Key(), UID: c.UID})
}

func (m *machine) resolve(t *rapid.T) {
	source, content := sources.Draw(t, "source").Normal(), contents.Draw(t, "content")
	resolution := good(content)
	resolution.Snapshot.Commit = m.uid()
	m.seen[plan.Bundle{Source: source, Digest: resolution.Snapshot.Digest, Commit: resolution.Snapshot.Commit, Subpath: source.Subpath()}] = true
	if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
		resolution = m.model.resolutions[source]
		resolution.Problem = &catalog.Problem{Reason: reason.RefNotFound}
	}
	m.model.resolutions[source] = resolution
	m.view.Resolved(t.Context(), source, resolution, nil)
	m.check(t)
}

// ask wants the model's plan, in memory or not.
func (m *machine) ask(t *rapid.T) {
	name := clusterNames.Draw(t, "cluster")
	got, ok := m.view.Plan(name)
	if exists := m.model.clusters[name] != nil; ok != exists {
		t.Fatalf("%s: got a plan %v, want %v", name, ok, exists)
	}
	if !ok {
		return
	}
	want := m.model.plan(name)
	ignored := cmpopts.IgnoreFields(plan.Plan{}, "ComputedAt")
	if diff := cmp.Diff(want, got, ignored, cmp.AllowUnexported(digest.Digest{}), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("plan of %s (-want +got):\n%s", name, diff)
	}
	if m.model.asked[name] == nil {
		m.model.asked[name] = []*plan.Plan{want}
	}
	m.check(t)
}

// read wants exactly the bundles of the plans in mind to be readable, and the bundles of all
// current plans pinned.
func (m *machine) read(t *rapid.T) {
	name, content := clusterNames.Draw(t, "cluster"), contents.Draw(t, "content")
	d := digest.FromBytes([]byte(content))
	if m.model.asked[name] == nil && m.model.clusters[name] != nil {
		m.model.asked[name] = []*plan.Plan{m.model.plan(name)}
	}
	want := slices.ContainsFunc(m.model.asked[name], func(p *plan.Plan) bool { _, ok := p.Bundle(d); return ok })
	bundle, got := m.view.Bundle(name, d)
	if got != want {
		t.Fatalf("content %s read by %s: got %v, want %v", content, name, got, want)
	}
	bundle.Mount = "" // the same content has several
	if got && !m.seen[bundle] {
		t.Fatalf("content %s read by %s: got %+v, a commit at which the source never held that", content, name, bundle)
	}
	for cluster := range m.model.clusters {
		if _, named := m.model.plan(cluster).Bundle(d); named && !m.view.Pinned(d) {
			t.Fatalf("content %s: the current plan of %s names it, and it is not pinned", content, cluster)
		}
	}
	m.check(t)
}

// drop lets all plans go, as after an hour of silence.
func (m *machine) drop(t *rapid.T) {
	m.view.DropPlans(time.Now().Add(time.Minute))
	clear(m.model.asked)
	m.check(t)
}

// status wants the same of every service, whether its plan is in memory or not.
func (m *machine) status(t *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(m.model.services)) {
		s := m.model.services[name]
		record, ok := m.view.Records.Get(s.Key())
		entry, _ := m.model.plan(s.Spec.Cluster).Entry(name)
		want := catalog.PhasePending
		if slices.ContainsFunc(s.Spec.Sources, func(source catalog.Source) bool { return m.model.resolutions[source.Normal()].Problem != nil }) {
			want = catalog.PhaseFailed
		} else if m.model.withheld(s) {
			if want = catalog.PhaseFailed; m.model.clusters[s.Spec.Cluster].Agent.Instance == "" {
				want = catalog.PhasePending
			}
		} else if s.Spec.Wanted().Paused && len(entry.Bundles) > 0 {
			want = catalog.PhasePaused
		}
		if !ok || record.Service.Phase != want {
			t.Fatalf("status of %s: got %v %s, want %s", name, ok, record.Service.Phase, want)
		}
	}
	m.check(t)
}

// TestLazyPlansAreTheEagerOnes runs random edits, commits, questions and silences.
func TestLazyPlansAreTheEagerOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range 4 { // a run of rapid's own length tells too little
			t.Repeat(map[string]func(*rapid.T){
				"put service": m.putService, "delete service": m.deleteService,
				"put cluster": m.putCluster, "delete cluster": m.deleteCluster,
				"report": m.report, "resolve": m.resolve, "resolve again": m.resolve, "ask": m.ask, "ask again": m.ask, "read": m.read,
				"drop": m.drop, "status": m.status,
			})
		}
	})
}

// newMachine begins with a catalog without services.
func newMachine(t *rapid.T) *machine {
	t.Helper()
	hub := fanout.NewHub[string](0)
	l := &log{}
	v := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: hub, Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	l.add(catalog.Changes{
		Clusters:     []*catalog.Cluster{cluster("c0"), cluster("c1")},
		Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "demo", UID: "uid-demo"}}},
	})
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &machine{log: l, view: v, told: hub.WatchAll(), seen: map[plan.Bundle]bool{}, model: eager{
		clusters: map[string]*catalog.Cluster{"c0": cluster("c0"), "c1": cluster("c1")}, services: map[string]*catalog.Service{},
		resolutions: map[catalog.Source]catalog.Resolution{}, asked: map[string][]*plan.Plan{},
	}}
}
