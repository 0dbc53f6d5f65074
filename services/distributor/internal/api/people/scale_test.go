// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// The size of the hub of the benchmarks: as many projects with one cluster, ten repositories and 200
// services each.
const (
	benchProjects = 500
	benchServices = 200
)

// feed is a store that hands out one batch of changes.
type feed struct {
	fleet.Store
	next catalog.Changes
}

func (f *feed) Changes(context.Context, int64) (catalog.Changes, error) { return f.next, nil }

// hub is the API of people over a view that tests feed.
type hub struct {
	feed    *feed
	view    *fleet.View
	objects *fanout.Hub[catalog.Key]
	client  *http.Client
}

// as is the header in which the tests' callers name themselves; its values are user and group.
const as = "Test-Person"

func newHub(tb testing.TB) *hub {
	tb.Helper()
	h := &hub{feed: &feed{}, objects: fanout.NewHub[catalog.Key](0)}
	h.view = fleet.New(fleet.Params{
		Store: h.feed, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: h.objects, PollInterval: time.Second,
	})
	service := people.New(people.Deps{View: h.view, Objects: h.objects, Mirrors: noMirrors{}, Logger: slog.New(slog.DiscardHandler)})
	path, handler := fleetv1connect.NewFleetServiceHandler(service)
	mux := http.NewServeMux()
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		person := identity.Identity{Kind: identity.KindUser, Name: r.Header.Get(as), Groups: r.Header.Values(as), Expires: time.Now().Add(time.Hour)}
		handler.ServeHTTP(w, r.WithContext(identity.NewContext(r.Context(), person)))
	}))
	_, h.client = rpctest.Serve(tb, mux)
	return h
}

// noMirrors knows no more of mirrors than the view does.
type noMirrors struct{ people.Mirrors }

func (noMirrors) States(context.Context, []string) (map[string]catalog.Mirror, error) {
	return nil, nil
}

// person returns a client that calls as a member of the given groups.
func (h *hub) person(name string, groups ...string) fleetv1connect.FleetServiceClient {
	return fleetv1connect.NewFleetServiceClient(&http.Client{Transport: signed{h.client.Transport, append([]string{name}, groups...)}}, rpctest.BaseURL)
}

type signed struct {
	http.RoundTripper
	person []string
}

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header[as] = s.person
	return s.RoundTripper.RoundTrip(r)
}

// apply has the view follow a batch of changes.
func (h *hub) apply(tb testing.TB, changes catalog.Changes) {
	tb.Helper()
	changes.Revision = h.view.Catalog.Revision() + 1
	h.feed.next = changes
	if err := h.view.Refresh(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

func project(i int) string { return fmt.Sprintf("team-%03d", i) }

func benchService(project, i, generation int) *catalog.Service {
	owner := fmt.Sprintf("team-%03d", project)
	name := objectname.ServicePath(objectname.Join(owner, fmt.Sprintf("service-%03d", i)), objectname.Join(owner, "main"))
	return &catalog.Service{
		Metadata: catalog.Metadata{Name: name, UID: "uid-" + name, Generation: int64(generation)},
		Spec: catalog.ServiceSpec{
			Cluster: objectname.Join(owner, "main"),
			Sources: []catalog.Source{{Repository: objectname.Join(owner, fmt.Sprintf("repository-%d", i%10)), Path: fmt.Sprintf("app-%02d", i%20)}},
		},
	}
}

// viewers lets ada see three of the projects.
func viewers() *catalog.AccessBinding {
	return &catalog.AccessBinding{Metadata: catalog.Metadata{Name: "viewers", UID: "uid-viewers"}, Spec: catalog.AccessBindingSpec{
		Users: []string{"ada"}, Role: catalog.RoleViewer,
		Projects: catalog.ProjectScope{Names: []string{project(7), project(benchProjects / 2), project(benchProjects - 1)}},
	}}
}

// newLargeHub returns a hub with benchProjects projects.
func newLargeHub(tb testing.TB) *hub {
	tb.Helper()
	h := newHub(tb)
	all := catalog.Changes{Bindings: []*catalog.AccessBinding{viewers()}}
	for p := range benchProjects {
		owner := project(p)
		all.Projects = append(all.Projects, &catalog.Project{Metadata: catalog.Metadata{Name: owner, UID: "uid-" + owner}})
		cluster := objectname.Join(owner, "main")
		all.Clusters = append(all.Clusters, &catalog.Cluster{Metadata: catalog.Metadata{Name: cluster, UID: "uid-" + cluster}})
		for r := range 10 {
			name := objectname.Join(owner, fmt.Sprintf("repository-%d", r))
			all.Repositories = append(all.Repositories, &catalog.Repository{Metadata: catalog.Metadata{Name: name, UID: "uid-" + name}})
		}
		for i := range benchServices {
			all.Services = append(all.Services, benchService(p, i, 1))
		}
	}
	h.apply(tb, all)
	return h
}

// BenchmarkList reads the first page of listings, through the handler, as a person who may see three
// projects of 500, and as an administrator.
func BenchmarkList(b *testing.B) {
	h := newLargeHub(b)
	list := func(b *testing.B, client fleetv1connect.FleetServiceClient, req *fleetv1.ListRequest, want int) {
		b.Helper()
		res, err := fleetcalls.List[*fleetv1.Service](b.Context(), client, req)
		if err != nil || len(res.Objects) != want {
			b.Fatalf("got %d services, %v, want %d", len(res.Objects), err, want)
		}
	}
	ada, admin := h.person("ada"), h.person("root", catalog.AdminGroup)
	b.Run("caller=three-projects", func(b *testing.B) {
		for b.Loop() {
			list(b, ada, &fleetv1.ListRequest{}, 500)
		}
	})
	b.Run("caller=three-projects,filter=project", func(b *testing.B) {
		for b.Loop() {
			list(b, ada, &fleetv1.ListRequest{Project: project(benchProjects - 1)}, benchServices)
		}
	})
	b.Run("caller=three-projects,filter=foreign-project", func(b *testing.B) {
		for b.Loop() {
			list(b, ada, &fleetv1.ListRequest{Project: project(benchProjects - 2)}, 0)
		}
	})
	b.Run("caller=admin,filter=project", func(b *testing.B) {
		for b.Loop() {
			list(b, admin, &fleetv1.ListRequest{Project: project(benchProjects - 1)}, benchServices)
		}
	})
	b.Run("caller=three-projects,after=new-service", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			b.StopTimer()
			h.apply(b, catalog.Changes{Services: []*catalog.Service{benchService(0, benchServices+n, 1)}})
			b.StartTimer()
			list(b, ada, &fleetv1.ListRequest{}, 500)
		}
	})
	b.Run("caller=three-projects,kind=repositories", func(b *testing.B) {
		for b.Loop() {
			res, err := fleetcalls.List[*fleetv1.Repository](b.Context(), ada, &fleetv1.ListRequest{})
			if err != nil || len(res.Objects) != 30 {
				b.Fatalf("got %d repositories, %v", len(res.Objects), err)
			}
		}
	})
	b.Run("caller=three-projects,kind=clusters", func(b *testing.B) {
		for b.Loop() {
			res, err := fleetcalls.List[*fleetv1.Cluster](b.Context(), ada, &fleetv1.ListRequest{})
			if err != nil || len(res.Objects) != 3 {
				b.Fatalf("got %d clusters, %v", len(res.Objects), err)
			}
		}
	})
}

// BenchmarkLimits changes what agents check of a project, among 100,000 services of others. It
// reports how long that takes with the notification of everybody.
func BenchmarkLimits(b *testing.B) {
	h := newLargeHub(b)
	n := 0
	for b.Loop() {
		n++
		limited := &catalog.Project{Metadata: catalog.Metadata{Name: project(3), UID: "uid-" + project(3)}}
		limited.Spec.Limits.Namespaces = []string{fmt.Sprint("shop-", n)}
		h.apply(b, catalog.Changes{Projects: []*catalog.Project{limited}})
	}
}
