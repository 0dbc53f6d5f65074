// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// nameOf returns a service's name as people write it in the project default.
func nameOf(s *fleetv1.Service) string {
	name := s.GetMetadata().GetName() + "@" + s.GetSpec().GetCluster()
	if project := s.GetMetadata().GetProject(); project != "" {
		name = project + "/" + name
	}
	return name
}

// twins has services app on the clusters one and two, a service app of the project shop on cluster
// one, and a service lone on cluster two.
func twins(t *testing.T) (h *crowd, content *folder) {
	t.Helper()
	h, content = newCrowd(t), newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, projectDocuments("shop")...)
	h.apply(t, in("shop", repositoryDocument("demo")), clusterDocument("two"))
	h.git.set("shop.demo", "app", newFolder(t, "c2", "two"))
	h.apply(t,
		serviceDocument("app", "two", "demo", "app"), serviceDocument("lone", "two", "demo", "app"),
		in("shop", serviceDocument("app", "default/one", "demo", "app")),
	)
	return h, content
}

// TestEqualNamesInClusters: services of one name on two clusters are different ones, wherever they are
// named: in calls, in listings, in plans, in reports, and in the record of changes.
func TestEqualNamesInClusters(t *testing.T) {
	t.Parallel()
	h, content := twins(t)
	admin, ctx := h.fleet(t, adminToken), t.Context()

	for reference, want := range map[string]string{
		"app@one": "app@one", "app@two": "app@two", "default/app@two": "app@two", "app@default/one": "app@one",
		"lone": "lone@two", "lone@two": "lone@two", "shop/app": "shop/app@default/one", "shop/app@default/one": "shop/app@default/one",
	} {
		res, err := fleetcalls.Get[*fleetv1.Service](ctx, admin, reference)
		if got := nameOf(res); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", reference, got, err, want)
		}
	}
	for reference, reason := range map[string]string{
		"app": "NAME_AMBIGUOUS", "lone@one": "NOT_FOUND", "app@none": "NOT_FOUND", "shop/app@one": "NOT_FOUND",
		"app@": "FIELD_INVALID", "@one": "FIELD_INVALID", "app@one@two": "FIELD_INVALID",
	} {
		_, err := fleetcalls.Get[*fleetv1.Service](ctx, admin, reference)
		wantReason(t, err, reason)
		if reason == "NAME_AMBIGUOUS" && (rpcerr.Metadata(err)["candidates"] != "app@one,app@two" || !strings.Contains(err.Error(), "app@one, app@two; name one of them")) {
			t.Errorf("got %v, want both candidates named", err)
		}
	}
	for call, err := range map[string]error{
		"sync":      second(admin.SyncService(ctx, &fleetv1.SyncServiceRequest{Name: "app"})),
		"preview":   second(admin.PreviewService(ctx, &fleetv1.PreviewServiceRequest{Name: "app"})),
		"plan":      second(admin.GetServicePlan(ctx, &fleetv1.GetServicePlanRequest{Name: "app"})),
		"revisions": second(admin.ListRevisions(ctx, &fleetv1.ListRevisionsRequest{Service: "app"})),
		"delete":    fleetcalls.Delete[*fleetv1.Service](ctx, admin, "app"),
		"watch": func() error {
			stream, err := admin.Watch(ctx, &fleetv1.WatchRequest{Kind: "Service", Name: "app"})
			if err != nil {
				return err
			}
			defer stream.Close()
			stream.Receive()
			return stream.Err()
		}(),
	} {
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_NAME_AMBIGUOUS {
			t.Errorf("%s: got %v, want it refused as ambiguous", call, err)
		}
	}

	// Each cluster's agent knows its own by the name alone.
	for _, c := range []struct {
		cluster string
		names   []string
	}{{"one", []string{"app", "shop.app"}}, {"two", []string{"app", "lone"}}} {
		var names []string
		agent := h.enrol(t, c.cluster)
		plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
		for _, s := range plan.GetServices() {
			names = append(names, s.GetName())
		}
		if !slices.Equal(names, c.names) {
			t.Errorf("plan of %s: got %q, want %q", c.cluster, names, c.names)
		}
		if c.cluster == "two" {
			_, err := h.agents(t, agent.token).ReportStatus(ctx, &distributorv1.ReportStatusRequest{
				PlanVersion: plan.GetVersion(), Instance: "process", Sequence: 1, Full: true, Cluster: &distributorv1.ClusterReport{},
				Services: []*distributorv1.ServiceReport{{
					Service: "app", ServiceUid: plan.GetServices()[0].GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY,
					ObservedSpecDigest: plan.GetServices()[0].GetSpecDigest(), AppliedDigests: []string{plan.GetServices()[0].GetBundles()[0].GetDigest()},
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	h.waitService(t, "app@two", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY
	})
	if s, err := fleetcalls.Get[*fleetv1.Service](ctx, admin, "app@one"); err != nil || s.GetStatus().GetReport() != nil {
		t.Errorf("app@one: got the report of another cluster's app: %v, %v", s.GetStatus(), err)
	}

	if err := fleetcalls.Delete[*fleetv1.Service](ctx, admin, "app@one"); err != nil {
		t.Fatal(err)
	}
	res, err := fleetcalls.Get[*fleetv1.Service](ctx, admin, "app")
	if got := nameOf(res); err != nil || got != "app@two" {
		t.Errorf("got %s, %v; want the one that is left", got, err)
	}
	for _, name := range []string{"app", "app@one", "app@two"} {
		records, err := admin.ListAuditRecords(ctx, &fleetv1.ListAuditRecordsRequest{Kind: "Service", Name: name, Outcome: "OK"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range records.GetRecords() {
			got = append(got, fmt.Sprintf("%s %s@%s", r.GetVerb(), r.GetName(), r.GetCluster()))
		}
		want := map[string][]string{
			"app":     {"delete app@one", "create app@two", "create app@one"},
			"app@one": {"delete app@one", "create app@one"},
			"app@two": {"create app@two"},
		}[name]
		if !slices.Equal(got, want) {
			t.Errorf("records of %s: got %q, want %q", name, got, want)
		}
	}
	refused, err := admin.ListAuditRecords(ctx, &fleetv1.ListAuditRecordsRequest{Kind: "Service", Outcome: "NAME_AMBIGUOUS"})
	if err != nil || len(refused.GetRecords()) == 0 || refused.GetRecords()[0].GetName() != "app" {
		t.Errorf("got %v, %v; want refused calls on record", refused, err)
	}
}

// TestSecNamesShowNoOtherServices: a name leads to the only service of that name that the caller
// may see, and reveals nothing of others, on any cluster.
func TestSecNamesShowNoOtherServices(t *testing.T) {
	t.Parallel()
	h, _ := twins(t)
	h.apply(t,
		bindingOf("ada", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Services: []string{"app@two"}}),
		bindingOf("bob", &fleetv1.AccessBindingSpec{Users: []string{"bob"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Services: []string{"app"}}))
	adas, _ := h.join(t, "ada")
	bobs, _ := h.join(t, "bob")
	ada, bob, ctx := h.fleet(t, adas), h.fleet(t, bobs), t.Context()
	for reference, want := range map[string]string{"app": "app@two", "app@two": "app@two", "app@one": "", "shop/app": "", "lone": ""} {
		res, err := fleetcalls.Get[*fleetv1.Service](ctx, ada, reference)
		if want == "" {
			wantReason(t, err, "NOT_FOUND")
			continue
		}
		if err != nil || nameOf(res) != want {
			t.Errorf("ada, %s: got %v, %v; want %s", reference, res, err, want)
		}
	}
	if err := fleetcalls.Delete[*fleetv1.Service](ctx, ada, "app@one"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("ada deletes app@one: got %v, want that there is none", err)
	}
	_, err := fleetcalls.Get[*fleetv1.Service](ctx, bob, "app")
	wantReason(t, err, "NAME_AMBIGUOUS")
	list, err := fleetcalls.List[*fleetv1.Service](ctx, bob, &fleetv1.ListRequest{})
	var names []string
	for _, s := range list.Objects {
		names = append(names, nameOf(s))
	}
	if err != nil || !slices.Equal(names, []string{"app@one", "app@two"}) {
		t.Errorf("bob lists %q, %v; want the services of the name in every cluster", names, err)
	}
}
