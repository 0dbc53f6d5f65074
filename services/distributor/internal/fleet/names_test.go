// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// Names and projects that sort into each other: the characters "-" and "0" sort before and after
// the dot of a path.
var (
	listedProjects = []string{"default", "a", "a-a", "a0", "b"}
	listedNames    = []string{"a", "a-a", "a-z", "a0", "b", "c"}
)

// listing is a hub of random services, and the slow form of its listings.
type listing struct {
	log      *log
	view     *fleet.View
	services map[string]*catalog.Service
}

func (l *listing) step(t *rapid.T) {
	changes := catalog.Changes{}
	for range rapid.IntRange(1, 8).Draw(t, "changes") {
		name := objectname.Join(rapid.SampledFrom(listedProjects).Draw(t, "project"), rapid.SampledFrom(listedNames).Draw(t, "name"))
		if old := l.services[name]; old != nil && rapid.Bool().Draw(t, "deletes") {
			changes.Deleted = append(changes.Deleted, catalog.Tombstone{Key: old.Key(), UID: old.UID})
			delete(l.services, name)
			continue
		}
		changes.Services = slices.DeleteFunc(changes.Services, func(s *catalog.Service) bool { return s.Name == name })
		next := service(name, rapid.SampledFrom([]string{"one", "two", "b.one"}).Draw(t, "cluster"), catalog.Source{Repository: "demo", Path: name})
		changes.Services = append(changes.Services, next)
		l.services[name] = next
	}
	// An object that was made and deleted in one batch is deleted.
	changes.Services = slices.DeleteFunc(changes.Services, func(s *catalog.Service) bool { return l.services[s.Name] != s })
	l.log.add(changes)
	if err := l.view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// query draws what a person may see and asks for, and returns the listing's answer page by page, and
// the names that the slow form selects.
func (l *listing) query(t *rapid.T) (got, want []string) {
	var bindings []*catalog.AccessBinding
	for i := range rapid.IntRange(0, 3).Draw(t, "bindings") {
		spec := catalog.AccessBindingSpec{Users: []string{"ada"}, Role: rapid.SampledFrom([]catalog.RoleName{catalog.RoleViewer, ""}).Draw(t, "role")}
		switch rapid.IntRange(0, 7).Draw(t, "scope") {
		case 0:
			spec.Hub = true
		case 1:
			spec.Clusters.All = true
		case 2:
			spec.Projects.All = true
		case 3:
			spec.Clusters.Labels = &catalog.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}
		case 4:
			spec.Clusters.Names = []string{rapid.SampledFrom([]string{"one", "b.one", "none"}).Draw(t, "cluster")}
		case 5:
			spec.Services = []string{"a", objectname.Join("b", rapid.SampledFrom(listedNames).Draw(t, "service"))}
		default:
			spec.Projects.Names = rapid.SliceOfNDistinct(rapid.SampledFrom(listedProjects), 1, 3, rapid.ID[string]).Draw(t, "projects")
		}
		bindings = append(bindings, &catalog.AccessBinding{Metadata: catalog.Metadata{Name: fmt.Sprint("b", i)}, Spec: spec})
	}
	rights := authz.NewRights(l.view.Catalog, "ada", nil, bindings, time.Now())
	reads := catalog.Permission{Verb: catalog.VerbList, Resource: catalog.ResourceOf(catalog.KindService)}
	filter := rights.Filter(reads)
	scope := rights.ScopeOf(reads)
	q := fleet.Query{
		Kind: catalog.KindService, Limit: rapid.IntRange(1, 4).Draw(t, "limit"), Within: &scope,
		Project: rapid.SampledFrom(append([]string{"", "", "none"}, listedProjects...)).Draw(t, "filter"),
		Cluster: rapid.SampledFrom([]string{"", "", "one", "none"}).Draw(t, "in cluster"),
		Keep:    func(o catalog.Object) bool { return filter(authz.ObjectOf(l.view.Catalog, o)) },
	}
	for {
		records, more := l.view.Records.List(q)
		for _, record := range records {
			got = append(got, record.Object.Key().Name)
		}
		if !more {
			break
		}
		q.After = got[len(got)-1]
	}
	for name, s := range l.services {
		if (q.Project == "" || objectname.Project(name) == q.Project) && (q.Cluster == "" || s.Spec.Cluster == q.Cluster) &&
			rights.Allows(reads, authz.ObjectOf(l.view.Catalog, s)) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	return got, want
}

// TestListingsEqualTheSlowForm changes services at random, and lists them as people with random
// bindings and filters: the index selects the same as a walk over every service.
func TestListingsEqualTheSlowForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &listing{log: &log{}, services: map[string]*catalog.Service{}}
		l.view = emptyView(l.log)
		two := cluster("two")
		two.Labels = map[string]string{"stage": "prod"}
		l.log.add(catalog.Changes{Clusters: []*catalog.Cluster{cluster("one"), two, cluster("b.one")}})
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			l.step(t)
			got, want := l.query(t)
			if !slices.Equal(got, want) {
				t.Fatalf("listed %q, want %q", got, want)
			}
			var keys []string
			for _, key := range l.view.Catalog.Keys("a", nil) {
				if key.Kind == catalog.KindService {
					keys = append(keys, key.Name)
				}
			}
			var own []string
			for name := range l.services {
				if objectname.Project(name) == "a" {
					own = append(own, name)
				}
			}
			if slices.Sort(own); !slices.Equal(keys, own) {
				t.Fatalf("got keys %q of project a, want %q", keys, own)
			}
		}
	})
}

// TestListingsLookAtTheirScope counts the services that a listing asks about: the services of the
// scope, and not all of the hub.
func TestListingsLookAtTheirScope(t *testing.T) {
	t.Parallel()
	l := &log{}
	v := emptyView(l)
	changes := catalog.Changes{Clusters: []*catalog.Cluster{cluster("one")}}
	for p := range 100 {
		for i := range 20 {
			changes.Services = append(changes.Services, service(fmt.Sprintf("p%02d.s%02d", p, i), "one"))
		}
	}
	l.add(changes)
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		query fleet.Query
		looks int
	}{
		"of three projects":    {fleet.Query{Within: &authz.Scope{Projects: []string{"p07", "p50", "p99"}}}, 60},
		"of a project":         {fleet.Query{Project: "p33"}, 20},
		"of a foreign project": {fleet.Query{Project: "p33", Within: &authz.Scope{Projects: []string{"p07"}}}, 0},
		"of one service":       {fleet.Query{Within: &authz.Scope{Services: []string{"p07.s01", "p07.none"}}}, 1},
		"of everything":        {fleet.Query{Within: &authz.Scope{Everything: true}}, 2000},
	} {
		looks := 0
		test.query.Kind, test.query.Limit = catalog.KindService, 1
		test.query.Keep = func(catalog.Object) bool { looks++; return false }
		if v.Records.List(test.query); looks != test.looks {
			t.Errorf("%s: looked at %d services, want %d", name, looks, test.looks)
		}
	}
}

// emptyView returns a view of a log that it has not read yet.
func emptyView(l *log) *fleet.View {
	return fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
}
