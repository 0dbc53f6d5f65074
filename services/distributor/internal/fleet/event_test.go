// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// world is a view beside a model of it that finds everything by looking at all there is.
type world struct {
	view        *fleet.View
	log         *log
	watcher     *fanout.Watcher[string]
	services    map[string]*catalog.Service
	resolutions map[catalog.Source]catalog.Resolution
	clusters    []string
	uids        int
}

func newWorld(t *rapid.T) *world {
	w := &world{
		log: &log{}, services: map[string]*catalog.Service{}, resolutions: map[catalog.Source]catalog.Resolution{},
		clusters: []string{"c0", "c1", "c2", "c3"},
	}
	all := catalog.Changes{}
	for _, name := range w.clusters {
		all.Clusters = append(all.Clusters, cluster(name))
	}
	for i := range 3 {
		name := fmt.Sprint("r", i)
		all.Repositories = append(all.Repositories, &catalog.Repository{Metadata: catalog.Metadata{Name: name, UID: "uid-" + name}})
	}
	w.log.add(all)
	plans := fanout.NewHub[string](0)
	w.watcher = plans.WatchAll()
	w.view = fleet.New(fleet.Params{
		Store: w.log, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: plans, Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	if err := w.view.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// edit puts a service, under a new uid or the one it has, or deletes it.
func (w *world) edit(t *rapid.T) {
	name := fmt.Sprint("s", rapid.IntRange(0, 7).Draw(t, "service"))
	old := w.services[name]
	var changes catalog.Changes
	if old != nil && rapid.Bool().Draw(t, "delete") {
		changes.Deleted = append(changes.Deleted, catalog.Tombstone{Key: old.Key(), UID: old.UID})
		delete(w.services, name)
		old = nil
	}
	if old == nil || rapid.Bool().Draw(t, "put") {
		next := service(name, rapid.SampledFrom(w.clusters).Draw(t, "cluster"))
		if next.UID = fmt.Sprint("uid", w.uids); old != nil {
			next.UID = old.UID
		}
		w.uids++
		for range rapid.IntRange(1, 3).Draw(t, "sources") {
			next.Spec.Sources = append(next.Spec.Sources, catalog.Source{
				Repository: fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "repository")), Path: fmt.Sprint("p", rapid.IntRange(0, 1).Draw(t, "path")),
			})
		}
		changes.Services = append(changes.Services, next)
		w.services[name] = next
	}
	w.log.add(changes)
	if err := w.view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// event moves a repository to another commit, which changes some of the folders, and has those
// asked for that the view names.
func (w *world) event(t *rapid.T, repository, commit string) {
	for _, source := range w.view.Catalog.SourcesOf(repository) {
		content := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "content")
		next := catalog.Resolution{Snapshot: &catalog.Snapshot{Commit: commit, Digest: digest.FromBytes([]byte(content))}}
		w.resolutions[source] = next
		w.view.Resolved(t.Context(), source, next, nil)
	}
}

// plans are the model's plans of every cluster.
func (w *world) plans() map[string]*plan.Plan {
	all := map[string]*plan.Plan{}
	for _, name := range w.clusters {
		var inputs []plan.Input
		for _, service := range w.services {
			if service.Spec.Cluster != name {
				continue
			}
			input := plan.Input{Service: service}
			for _, source := range service.Spec.Sources {
				input.Snapshots = append(input.Snapshots, w.resolutions[source.Normal()].Snapshot)
			}
			inputs = append(inputs, input)
		}
		all[name] = plan.Compute(name, plan.ClusterPart{}, inputs, plan.Cause{})
	}
	return all
}

// read returns the plans that the view has.
func (w *world) read(t *rapid.T) map[string]*plan.Plan {
	all := map[string]*plan.Plan{}
	for _, name := range w.clusters {
		p, ok := w.view.Plan(name)
		if !ok {
			t.Fatalf("cluster %s has no plan", name)
		}
		all[name] = p
	}
	return all
}

// names reports whether a service of the cluster reads the repository.
func (w *world) names(cluster, repository string) bool {
	for _, service := range w.services {
		for _, source := range service.Spec.Sources {
			if service.Spec.Cluster == cluster && source.Repository == repository {
				return true
			}
		}
	}
	return false
}

var planValues = cmp.Options{cmpopts.IgnoreFields(plan.Plan{}, "ComputedAt"), cmpopts.EquateComparable(digest.Digest{}), cmpopts.EquateEmpty()}

// TestEventsChangeTheirPlansOnly has random edits and events: the view agrees with the model after
// each, and an event of a repository leaves plans alone that do not name it, and tells the watchers
// of exactly those whose version it changed.
func TestEventsChangeTheirPlansOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		defer w.watcher.Close()
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "edit") {
				w.edit(t)
			} else {
				w.checkEvent(t, fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "of")), fmt.Sprint("commit", step))
			}
			if diff := cmp.Diff(w.plans(), w.read(t), planValues); diff != "" {
				t.Fatalf("plans (-model +view):\n%s", diff)
			}
		}
	})
}

func (w *world) checkEvent(t *rapid.T, repository, commit string) {
	before := w.read(t)
	w.watcher.Take()
	w.event(t, repository, commit)
	told, _ := w.watcher.Take()
	slices.Sort(told)
	var changed []string
	for name, after := range w.read(t) {
		if after.Version != before[name].Version {
			changed = append(changed, name)
		}
		if !w.names(name, repository) && !cmp.Equal(before[name], after, cmpopts.EquateComparable(digest.Digest{})) {
			t.Errorf("the plan of %s changed, which does not name %s", name, repository)
		}
	}
	slices.Sort(changed)
	if diff := cmp.Diff(changed, told, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("watchers told (-changed +told):\n%s", diff)
	}
}
