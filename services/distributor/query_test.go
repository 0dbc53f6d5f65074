// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

func (h *hub) queries(t *testing.T, token string) fleetv1connect.QueryServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewQueryServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// inRegion returns a cluster with a region.
func inRegion(name, region string) *fleetv1.Document {
	document := clusterDocument(name)
	document.GetCluster().Metadata.Labels = map[string]string{"region": region}
	return document
}

// selects returns the refs of what a query selects, and checks that the total is their number.
func selects(t *testing.T, c fleetv1connect.QueryServiceClient, q *fleetv1.FleetQuery) string {
	t.Helper()
	res, err := c.QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: q, Documents: true})
	if err != nil {
		t.Fatalf("%v: %v", q, err)
	}
	var refs []string
	for _, row := range res.GetRows() {
		refs = append(refs, row.GetRef())
		if row.GetDocument() == nil {
			t.Errorf("%s has no document", row.GetRef())
		}
	}
	if int(res.GetTotal()) != len(refs) {
		t.Errorf("%v: a total of %d for %v", q, res.GetTotal(), refs)
	}
	return strings.Join(refs, " ")
}

func TestQueryFleet(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	for _, path := range []string{"a", "b"} {
		c.git.set("demo", path, newFolder(t, "c1", path)) // without content, services fail
	}
	c.apply(t, inRegion("one", "eu"), inRegion("two", "us"), repositoryDocument("demo"),
		serviceDocument("app", "one", "demo", "a"), inNamespace(serviceDocument("app", "two", "demo", "a"), "shop"), serviceDocument("web", "two", "demo", "b"))
	admin := c.queries(t, adminToken)
	for text, want := range map[string]string{
		"":                        "app@one app@two web@two",
		"cluster.label.region=eu": "app@one",
		"namespace=shop":          "app@two",
		"name=app phase=pending":  "app@one app@two",
		"path=b":                  "web@two",
		"demo":                    "app@one app@two web@two",
		"nothing":                 "",
	} {
		if got := selects(t, admin, &fleetv1.FleetQuery{Kind: "Service", Filter: text}); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for kind, want := range map[string]string{"Cluster": "one two", "Repository": "demo", "User": "admin", "Project": "default", "Role": "", "Notifier": ""} {
		if got := selects(t, admin, &fleetv1.FleetQuery{Kind: kind}); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
	if got := selects(t, admin, &fleetv1.FleetQuery{Kind: "Cluster", Filter: "label.region=us"}); got != "two" {
		t.Errorf("got clusters %q", got)
	}
	res, err := admin.QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: &fleetv1.FleetQuery{
		Kind: "Service", Order: "-name", Offset: 1, Size: 1, GroupBy: []string{"cluster.label.region", "phase"},
	}})
	if err != nil || res.GetTotal() != 3 || len(res.GetRows()) != 1 {
		t.Fatalf("got %v, %v", res, err)
	}
	row := res.GetRows()[0]
	if row.GetRef() != "app@two" || row.GetCluster() != "two" || row.GetNamespace() != "shop" || row.GetPhase() != "PENDING" || row.GetDocument() != nil ||
		fmt.Sprint(row.GetRepositories()) != "[demo]" || fmt.Sprint(row.GetCan()) != "[confirm delete pause preview rollback sync update]" {
		t.Errorf("got %v", row)
	}
	regions := res.GetGroups()[0]
	if regions.GetField() != "cluster.label.region" || regions.GetGroups()[0].GetValue() != "us" || regions.GetGroups()[0].GetCount() != 2 {
		t.Errorf("got %v", res.GetGroups())
	}
	for field, q := range map[string]*fleetv1.FleetQuery{
		"query.filter": {Kind: "Service", Filter: "phase=Sick"}, "query.kind": {Kind: "Pod"}, "query.order": {Kind: "Service", Order: "size"}, "query.project": {Kind: "Service", Project: "-"},
		"query.cluster": {Kind: "Service", Cluster: "a/b/c"},
	} {
		_, err := admin.QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: q})
		wantReason(t, err, "FIELD_INVALID")
		if !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want one that names %s", err, field)
		}
	}
}

// TestSecQueriesKeepVisibility asks about what the caller may not see, by every way that a query has.
func TestSecQueriesKeepVisibility(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.git.set("demo", "a", newFolder(t, "c1", "a")) // without content, services fail
	for _, path := range []string{"b", "c", "d"} {
		c.git.set("private", path, newFolder(t, "c1", path))
	}
	c.apply(t, inRegion("one", "eu"), inRegion("two", "secret"), repositoryDocument("demo"), repositoryDocument("private"),
		inNamespace(serviceDocument("shop", "one", "demo", "a"), "shop"), inNamespace(serviceDocument("web", "one", "private", "b"), "web"),
		inNamespace(serviceDocument("far", "two", "private", "c"), "shop"), inNamespace(serviceDocument("single", "two", "private", "d"), "shop"))
	secret, _ := c.join(t, "ada")
	stranger, _ := c.join(t, "eve")
	c.bind(t, "shop", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Clusters: named("one"), Rules: []*typev1.AccessRule{{Namespaces: []string{"shop"}}},
	})
	c.bind(t, "single", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Services: []string{"single"}})
	admin, ada, eve := c.queries(t, adminToken), c.queries(t, secret), c.queries(t, stranger)
	all := &fleetv1.FleetQuery{Kind: "Service", GroupBy: []string{"phase", "cluster.label.region", "repository", "name"}}
	// The administrator comes first, so that a shared answer would be theirs.
	if got := selects(t, admin, all); got != "far@two shop@one single@two web@one" {
		t.Fatalf("got %q", got)
	}
	for text, want := range map[string]string{
		"":                             "shop@one single@two",
		"name=web":                     "",
		"path=c":                       "",
		"repository=private":           "single@two",
		"cluster.label.region=*":       "shop@one", // ada does not see cluster two
		"cluster.label.region=secret":  "",
		"cluster.label.region!=secret": "shop@one single@two",
	} {
		q := &fleetv1.FleetQuery{Kind: "Service", Filter: text, GroupBy: all.GetGroupBy()}
		if got := selects(t, ada, q); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := selects(t, eve, q); got != "" {
			t.Errorf("%q: somebody without rights gets %q", text, got)
		}
	}
	res, err := ada.QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: all})
	if err != nil || strings.Contains(fmt.Sprint(res), "secret") || strings.Contains(fmt.Sprint(res), "web") {
		t.Errorf("got %v, %v, want nothing of what ada may not see", res, err)
	}
	if len(res.GetRows()[0].GetCan()) != 0 {
		t.Errorf("a viewer can %v", res.GetRows()[0].GetCan())
	}
	for kind, want := range map[string]string{"Cluster": "one", "Repository": "demo private", "User": "ada", "AccessBinding": "shop single"} {
		if got := selects(t, ada, &fleetv1.FleetQuery{Kind: kind}); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
	for kind, want := range map[string]string{"Cluster": "", "Repository": "", "User": "eve", "AccessBinding": ""} {
		if got := selects(t, eve, &fleetv1.FleetQuery{Kind: kind}); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
	clusters, err := ada.QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: &fleetv1.FleetQuery{Kind: "Cluster"}})
	if err != nil || clusters.GetRows()[0].GetTotal() != 1 {
		t.Errorf("got %v, %v, want a cluster with one service", clusters, err)
	}
	status, err := ada.GetFleetStatus(t.Context(), &fleetv1.GetFleetStatusRequest{})
	services := int64(0) // of whichever phases
	for _, phase := range status.GetServices() {
		services += int64(phase.GetCount())
	}
	if text := fmt.Sprint(status); err != nil || len(status.GetClusters()) != 1 || services != 2 || strings.Contains(text, "web") || strings.Contains(text, "far") {
		t.Errorf("got %v, %v", status, err)
	}
	for _, p := range status.GetProblems() {
		if p.GetKind() == "Cluster" && (p.GetServices() != 1 || fmt.Sprint(p.GetExamples()) != "[one]") {
			t.Errorf("got %v", p)
		}
	}
	status, err = eve.GetFleetStatus(t.Context(), &fleetv1.GetFleetStatusRequest{})
	if err != nil || len(status.GetProblems())+len(status.GetServices())+len(status.GetClusters())+len(status.GetRepositories()) != 0 {
		t.Errorf("somebody without rights gets %v, %v", status, err)
	}
}

// TestWatchQuery follows a window.
func TestWatchQuery(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), repositoryDocument("demo"), serviceDocument("a", "one", "demo", "a"), serviceDocument("b", "one", "demo", "b"))
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	secret, _ := c.join(t, "ada")
	viewer := &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Clusters: named("one")}
	c.bind(t, "b", viewer)
	stream, err := c.queries(t, secret).WatchQuery(ctx, &fleetv1.WatchQueryRequest{Query: &fleetv1.FleetQuery{Kind: "Service", Filter: "label.team!=other", Size: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	shown, window, total := map[string]*fleetv1.FleetRow{}, []string{}, int32(0)
	// follow reads the stream until the window and the total are as wanted, with a row for each name.
	follow := func(what, wanted string, count int32, isSo func() bool) {
		t.Helper()
		for fmt.Sprint(window) != wanted || total != count || !isSo() {
			if !stream.Receive() {
				t.Fatalf("%s: the stream ended with %v, having shown %v of %d", what, stream.Err(), window, total)
			}
			m := stream.Msg()
			for _, row := range m.GetRows() {
				shown[row.GetRef()] = row
			}
			if m.GetHasWindow() {
				window = m.GetWindow()
			}
			if m.GetHasCounts() {
				total = m.GetTotal()
			}
		}
		for _, ref := range window {
			if shown[ref] == nil {
				t.Errorf("%s: the window has %s, which was never sent", what, ref)
			}
		}
	}
	always := func() bool { return true }
	follow("first", "[a@one b@one]", 2, always)
	c.apply(t, serviceDocument("aa", "one", "demo", "c"))
	follow("a new one", "[a@one aa@one]", 3, always)
	other := serviceDocument("a", "one", "demo", "a")
	other.GetService().Metadata.Labels = map[string]string{"team": "other"}
	c.apply(t, other)
	follow("one that is no longer selected", "[aa@one b@one]", 2, always)
	changed := serviceDocument("b", "one", "demo", "b")
	changed.GetService().Metadata.Labels = map[string]string{"team": "ours"}
	c.apply(t, changed)
	follow("a change", "[aa@one b@one]", 2, func() bool { return shown["b@one"].GetLabels()["team"] == "ours" })
	if err := fleetcalls.Delete[*fleetv1.AccessBinding](t.Context(), c.admin, "b"); err != nil {
		t.Fatal(err)
	}
	follow("without rights", "[]", 0, always)
	_, err = c.queries(t, secret).QueryFleet(ctx, &fleetv1.QueryFleetRequest{Query: &fleetv1.FleetQuery{Kind: "Service", Filter: "a="}})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
	}
}

// TestArrivalOfACommit asks how long a commit took, and follows that.
func TestArrivalOfACommit(t *testing.T) {
	t.Parallel()
	h := newCrowd(t)
	content := newFolder(t, "c1c1c1c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	entry, commit := plan.GetServices()[0], content.snapshot.GetCommit()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	queries := h.queries(t, adminToken)
	stream, err := queries.WatchQuery(ctx, &fleetv1.WatchQueryRequest{Query: &fleetv1.FleetQuery{Kind: "Service", Size: 1, ArrivalOf: commit}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	follow := func(what string, isSo func(*fleetv1.CommitArrival) bool) *fleetv1.CommitArrival {
		t.Helper()
		for stream.Receive() {
			if m := stream.Msg(); m.GetHasCounts() && isSo(m.GetArrival()) {
				return m.GetArrival()
			}
		}
		t.Fatalf("%s: the stream ended with %v", what, stream.Err())
		return nil
	}
	follow("on its way", func(a *fleetv1.CommitArrival) bool {
		return a.GetApplied().GetPending() == 1 && a.GetHealthy().GetPending() == 1
	})
	planned := time.Unix(1_800_000_000, 0)
	_, err = h.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
		PlanVersion: plan.GetVersion(), Instance: "process", Sequence: 1, Full: true,
		Services: []*distributorv1.ServiceReport{{
			Service: "app", ServiceUid: entry.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, ObservedSpecDigest: entry.GetSpecDigest(),
			AppliedDigests: []string{content.snapshot.GetDigest()}, AppliedCommits: []string{commit}, PlannedAt: timestamppb.New(planned), ApplyDuration: durationpb.New(2 * time.Second),
			Timings: &distributorv1.Timings{ArrivedAt: timestamppb.New(planned.Add(time.Second)), Healthy: durationpb.New(5 * time.Second)},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := follow("there", func(a *fleetv1.CommitArrival) bool { return a.GetHealthy().GetCount() == 1 })
	slowest := got.GetHealthy().GetSlowest()
	if got.GetApplied().GetP50().AsDuration() != 3*time.Second || got.GetHealthy().GetP99().AsDuration() != 6*time.Second || got.GetHealthy().GetPending() != 0 ||
		len(slowest) != 1 || slowest[0].GetRef() != "app@one" || slowest[0].GetTook().AsDuration() != 6*time.Second {
		t.Errorf("got %v", got)
	}
	next := newFolder(t, "c2", "two")
	h.git.set("demo", "app", next)
	h.git.announce("demo", "", "refs/heads/main")
	await.True(t, "a row with what the cluster has, and what it is to have", func() bool {
		res, err := queries.QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: &fleetv1.FleetQuery{Kind: "Service", Size: 1}})
		if err != nil {
			t.Fatal(err)
		}
		row := res.GetRows()[0]
		return slices.Equal(row.GetAppliedCommits(), []string{commit}) && slices.Equal(row.GetCommits(), []string{next.snapshot.GetCommit()})
	})
	for what, query := range map[string]*fleetv1.FleetQuery{
		"not services": {Kind: "Cluster", ArrivalOf: commit}, "not a commit": {Kind: "Service", ArrivalOf: "main"},
	} {
		_, err := queries.QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: query})
		if wantReason(t, err, "FIELD_INVALID"); !strings.Contains(err.Error(), "query.arrival_of") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	ada, _ := h.join(t, "ada")
	hidden, err := h.queries(t, ada).QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: &fleetv1.FleetQuery{Kind: "Service", ArrivalOf: commit}})
	if err != nil || hidden.GetArrival().GetHealthy().GetCount() != 0 || len(hidden.GetArrival().GetHealthy().GetSlowest()) != 0 {
		t.Errorf("somebody without rights gets %v, %v", hidden, err)
	}
}
