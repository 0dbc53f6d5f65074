// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"slices"
	"testing"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

// inNamespace returns a service in a namespace of its cluster.
func inNamespace(document *fleetv1.Document, namespace string) *fleetv1.Document {
	document.GetService().Spec.Namespace = namespace
	return document
}

// TestListsHoldWhatTheCallerMaySee narrows a binding to a namespace.
func TestListsHoldWhatTheCallerMaySee(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), clusterDocument("two"), repositoryDocument("demo"), repositoryDocument("private"),
		inNamespace(serviceDocument("shop", "one", "demo", "a"), "shop"), inNamespace(serviceDocument("web", "one", "private", "b"), "web"),
		inNamespace(serviceDocument("far", "two", "private", "c"), "shop"), inNamespace(serviceDocument("single", "two", "private", "d"), "shop"))
	secret, _ := c.join(t, "ada")
	c.bind(t, "shop", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Clusters: named("one"), Rules: []*typev1.AccessRule{{Namespaces: []string{"shop"}}},
	})
	c.bind(t, "single", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Services: []string{"single"}})
	ada := c.fleet(t, secret)
	services, err1 := fleetcalls.List[*fleetv1.Service](t.Context(), ada, &fleetv1.ListRequest{})
	clusters, err2 := fleetcalls.List[*fleetv1.Cluster](t.Context(), ada, &fleetv1.ListRequest{})
	repositories, err3 := fleetcalls.List[*fleetv1.Repository](t.Context(), ada, &fleetv1.ListRequest{})
	elsewhere, err4 := fleetcalls.List[*fleetv1.Service](t.Context(), ada, &fleetv1.ListRequest{Cluster: "two"})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, s := range services.Objects {
		got = append(got, s.GetMetadata().GetName())
	}
	if !slices.Equal(got, []string{"shop", "single"}) || len(elsewhere.Objects) != 1 {
		t.Errorf("got services %v, and %v of cluster two", got, elsewhere.Objects)
	}
	if got := clusters.Objects; len(got) != 1 || got[0].GetMetadata().GetName() != "one" || got[0].GetStatus().GetServices() != 1 {
		t.Errorf("got clusters %v, want one, with one service", got)
	}
	if got := repositories.Objects; len(got) != 2 || got[0].GetSpec().GetUrl() == "" || got[0].GetSpec().GetPollInterval() != nil {
		t.Errorf("got repositories %v, want those of ada's services, and little of each", got)
	}
	_, err := fleetcalls.Get[*fleetv1.Service](t.Context(), ada, "web")
	wantReason(t, err, "NOT_FOUND")
	page, err := fleetcalls.List[*fleetv1.Service](t.Context(), ada, &fleetv1.ListRequest{Page: &typev1.Page{Size: 1}})
	if err != nil || len(page.Objects) != 1 || page.NextPageToken == "" {
		t.Fatalf("got %v, %v, want the first of two", page, err)
	}
	page, err = fleetcalls.List[*fleetv1.Service](t.Context(), ada, &fleetv1.ListRequest{Page: &typev1.Page{Size: 1, Token: page.NextPageToken}})
	if err != nil || len(page.Objects) != 1 || page.Objects[0].GetMetadata().GetName() != "single" || page.NextPageToken != "" {
		t.Errorf("got %v, %v, want the second and last", page, err)
	}
}

// TestWatchFollowsRights grants, narrows and withdraws while a person watches.
func TestWatchFollowsRights(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), clusterDocument("two"), repositoryDocument("demo"),
		serviceDocument("app", "one", "demo", "a"), serviceDocument("other", "two", "demo", "b"))
	secret, _ := c.join(t, "ada")
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	stream, err := c.fleet(t, secret).Watch(ctx, &fleetv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	seen := map[string]bool{}
	// follow reads the stream until what was seen is as wanted. Whatever else comes is an error.
	follow := func(what string, want ...string) {
		t.Helper()
		for !equalSet(seen, want) {
			if !stream.Receive() {
				t.Fatalf("%s: the stream ended with %v, having shown %v", what, stream.Err(), seen)
			}
			note(t, seen, stream)
		}
	}
	for !stream.Msg().GetSynced() {
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		note(t, seen, stream)
	}
	follow("before", "User ada")
	viewer := &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Clusters: named("one")}
	c.bind(t, "b", viewer)
	follow("bound", "User ada", "AccessBinding b", "Cluster one", "Service app", "Repository demo")
	c.apply(t, serviceDocument("new", "one", "demo", "c"), serviceDocument("new2", "two", "demo", "d"))
	follow("a new service", "User ada", "AccessBinding b", "Cluster one", "Service app", "Service new", "Repository demo")
	viewer.Clusters = named("two")
	c.bind(t, "b", viewer)
	follow("elsewhere", "User ada", "AccessBinding b", "Cluster two", "Service other", "Service new2", "Repository demo")
	if err := fleetcalls.Delete[*fleetv1.AccessBinding](t.Context(), c.admin, "b"); err != nil {
		t.Fatal(err)
	}
	follow("unbound", "User ada")
}

// note applies a change to the view. TestWatchOfAProjectFollowsForeignServices watches one project.
// A repository of it is visible through a service of another project alone, until that service is
// no longer visible, by its own change and then by another source.
func TestWatchOfAProjectFollowsForeignServices(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	shared := projectDocument("lib", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{
		Projects: &fleetv1.Selection{All: true}, Repositories: &fleetv1.Selection{All: true},
	}}})
	put := func(namespace, repository string) {
		t.Helper()
		c.apply(t, in("shop", inNamespace(serviceDocument("app", "default/one", repository, "a"), namespace)))
	}
	open := projectDocument("default", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{
		Projects: &fleetv1.Selection{All: true}, Clusters: &fleetv1.Selection{All: true},
	}}})
	c.apply(t, shared, open, projectDocument("shop", nil), clusterDocument("one"), in("lib", repositoryDocument("base")), in("shop", repositoryDocument("own")))
	put("seen", "lib/base")
	secret, _ := c.join(t, "ada")
	c.bind(t, "b", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Clusters: named("one"), Rules: []*typev1.AccessRule{{Namespaces: []string{"seen"}}},
	})
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	stream, err := c.fleet(t, secret).Watch(ctx, &fleetv1.WatchRequest{Project: "lib"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	seen := map[string]bool{}
	follow := func(what string, want bool) {
		t.Helper()
		for seen["Repository base"] != want || !seen["User ada"] {
			if !stream.Receive() {
				t.Fatalf("%s: the stream ended with %v, having shown %v", what, stream.Err(), seen)
			}
			note(t, seen, stream)
		}
		if seen["Service app"] || seen["Repository own"] {
			t.Fatalf("%s: got %v, want nothing of other projects", what, seen)
		}
	}
	follow("at first", true)
	put("hidden", "lib/base")
	follow("the service has left for another namespace", false)
	put("seen", "lib/base")
	follow("it has come back", true)
	put("seen", "own")
	follow("it is made of another repository", false)
	put("seen", "lib/base")
	follow("it is made of the first one again", true)
	if err := fleetcalls.Delete[*fleetv1.Service](ctx, c.admin, "shop/app"); err != nil {
		t.Fatal(err)
	}
	follow("it is deleted", false)
}

func note(t *testing.T, seen map[string]bool, stream *connect.ServerStreamForClient[fleetv1.WatchResponse]) {
	t.Helper()
	object := fleetdoc.Object(stream.Msg().GetDocument())
	if object == nil {
		return
	}
	metadata, _ := object.Get(object.Descriptor().Fields().ByName("metadata")).Message().Interface().(*typev1.Metadata)
	key := string(object.Descriptor().Name()) + " " + metadata.GetName()
	if stream.Msg().GetDeleted() {
		if !seen[key] {
			t.Errorf("%s was deleted for somebody who never saw it", key)
		}
		delete(seen, key)
		return
	}
	seen[key] = true
}

func equalSet(got map[string]bool, want []string) bool {
	for _, key := range want {
		if !got[key] {
			return false
		}
	}
	return len(got) == len(want)
}
