// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

// agentClient calls the cluster's agent through the tunnel, like leat.
func (h *hub) agentClient(t *testing.T) agentv1connect.AgentServiceClient {
	t.Helper()
	return h.agentClientOf(t, h.fleet)
}

// agentClientOf does the same as the person whose client for the catalog it is given.
func (h *hub) agentClientOf(t *testing.T, fleet fleetv1connect.FleetServiceClient) agentv1connect.AgentServiceClient {
	t.Helper()
	access, err := fleet.CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
	if err != nil {
		t.Fatal(err)
	}
	token := access.GetAccessToken()
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: h.tunnel.url() + "/clusters/demo", Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	await.Poll(t, "the agent to connect", pause, func() (bool, string) {
		code, body := get(t, http.DefaultClient, h.tunnel.url()+"/clusters/demo/version", token)
		return code == http.StatusOK, body
	})
	return agentv1connect.NewAgentServiceClient(client.HTTP, client.BaseURL, client.Options...)
}

// stranger enrols the agent of another cluster, and returns its token.
func (h *hub) stranger(t *testing.T) string {
	t.Helper()
	h.apply(t, &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "stranger"}}}})
	joined, err := h.fleet.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: h.distributor.url(), Telemetry: telemetry.Noop()})
	if err != nil {
		t.Fatal(err)
	}
	agents := distributorv1connect.NewDistributorServiceClient(client.HTTP, client.BaseURL, client.Options...)
	if _, err := agents.Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: joined.GetJoinToken(), PublicKey: public}); err != nil {
		t.Fatal(err)
	}
	assertion, err := identity.SignAssertion(key, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := agents.RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetAccessToken()
}

// diff calls the agent, and returns the intended action for each object. No secret may be in the
// answer.
func diff(t *testing.T, client agentv1connect.AgentServiceClient, bundles []*distributorv1.PlanBundle) (map[string]agentv1.DiffAction, string) {
	t.Helper()
	response, err := client.Diff(t.Context(), &agentv1.DiffRequest{Service: "web", Bundles: bundles})
	if err != nil {
		t.Fatalf("diff: %v", err)
	}
	found, text := map[string]agentv1.DiffAction{}, ""
	for _, object := range response.GetObjects() {
		found[object.GetRef().GetKind()+"/"+object.GetRef().GetName()] = object.GetAction()
		text += object.GetUnified()
		if object.GetProblem() != nil {
			t.Errorf("%s: got the problem %v, want none", object.GetRef().GetName(), object.GetProblem())
		}
	}
	for _, secret := range []string{"hunter2", "hunter3", "aHVudGVyM", "configured"} {
		if strings.Contains(text, secret) {
			t.Errorf("the diff shows %s:\n%s", secret, text)
		}
	}
	return found, text
}

// TestDiff compares a cluster with the ref that its service follows, and with another branch, with
// every part real.
func TestDiff(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	secret := func(password string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: " + password + ", token: \"${TOKEN}\"}\n"
	}
	first := repo.Commit(t, "main", map[string]string{
		"web/settings.yaml": configMap("settings", "one"), "web/login.yaml": secret("hunter2"), "web/old.yaml": configMap("old", "x"),
		"web/config.yaml": configMap("config", "${TOKEN}"),
	})
	web := service("web", "shop", "web")
	web.GetService().Spec.Config = &fleetv1.ServiceConfig{Secrets: map[string]string{"TOKEN": "configured"}}
	h.apply(t, repository("shop", repo.URL()), web)
	h.waitService(t, "web", "healthy at the first commit", healthyAt(first))
	client := h.agentClient(t)

	if found, text := diff(t, client, nil); len(found) != 0 {
		t.Errorf("of what is applied: got %v, want no difference:\n%s", found, text)
	}
	paused := service("web", "shop", "web")
	paused.GetService().Spec.Paused = true
	h.apply(t, paused)
	second := repo.Commit(t, "main", map[string]string{"web/settings.yaml": configMap("settings", "two"), "web/login.yaml": secret("hunter3")})
	h.sync(t, "web")
	h.waitService(t, "web", "resolved at the second commit", func(s *fleetv1.ServiceStatus) bool {
		return s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_PAUSED && s.GetSources()[0].GetSnapshot().GetCommit() == second
	})
	update := agentv1.DiffAction_DIFF_ACTION_UPDATE
	want, text := map[string]agentv1.DiffAction{"ConfigMap/settings": update, "Secret/login": update}, ""
	await.Poll(t, "the agent to have the plan", pause, func() (bool, string) {
		var found map[string]agentv1.DiffAction
		found, text = diff(t, client, nil)
		return cmp.Equal(want, found), text
	})
	for _, line := range []string{"-  value: one", "+  value: two", "password: (masked, changed)"} {
		if !strings.Contains(text, line) {
			t.Errorf("the diff has no line %q:\n%s", line, text)
		}
	}
	t.Run("another branch", func(t *testing.T) { testDiffOfBranch(t, h, repo, client, second) })
	t.Run("by role", func(t *testing.T) { testRoles(t, h) })
	t.Run("inventory and events", func(t *testing.T) { testInventoryAndEvents(t, h, client, web, second) })
}

// testDiffOfBranch pushes a branch that no service follows.
func testDiffOfBranch(t *testing.T, h *hub, repo *gittest.Repo, client agentv1connect.AgentServiceClient, main string) {
	repo.Git(t, "branch", "feature", main)
	feature := repo.CommitFiles(t, "feature", map[string]gittest.File{
		"web/settings.yaml": gittest.Text(configMap("settings", "three")), "web/new.yaml": gittest.Text(configMap("new", "y")), "web/old.yaml": gittest.Deleted(),
	})
	branch := &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "feature"}}
	preview, err := h.fleet.PreviewService(t.Context(), &fleetv1.PreviewServiceRequest{Name: "web", Ref: branch})
	if err != nil {
		t.Fatalf("preview: %v", err)
	}
	bundles := preview.GetService().GetBundles()
	if got := bundles[0].GetCommit(); got != feature || preview.GetCluster() != "demo" {
		t.Errorf("got commit %s on %s, want %s on demo", got, preview.GetCluster(), feature)
	}
	if code, body := get(t, http.DefaultClient, h.distributor.url()+"/v1/bundles/"+bundles[0].GetDigest(), h.stranger(t)); code != http.StatusNotFound {
		t.Errorf("the preview by another cluster's agent: got %d %s, want 404", code, body)
	}
	found, text := diff(t, client, bundles)
	update := agentv1.DiffAction_DIFF_ACTION_UPDATE
	want := map[string]agentv1.DiffAction{
		"ConfigMap/settings": update, "Secret/login": update,
		"ConfigMap/new": agentv1.DiffAction_DIFF_ACTION_CREATE, "ConfigMap/old": agentv1.DiffAction_DIFF_ACTION_DELETE,
	}
	if d := cmp.Diff(want, found); d != "" || !strings.Contains(text, "+  value: three") {
		t.Errorf("differences (-want +got):\n%s\n%s", d, text)
	}
	if code, _ := h.kubeGet(t, "/api/v1/namespaces/web/configmaps/new"); code != http.StatusNotFound {
		t.Errorf("the object of the branch: got %d, want it not to be there", code)
	}
	if code, body := h.kubeGet(t, "/api/v1/namespaces/web/configmaps/settings"); code != http.StatusOK || !strings.Contains(body, `"one"`) {
		t.Errorf("the settings: got %d %s, want them unchanged", code, body)
	}
}

// testInventoryAndEvents lists the objects, and watches the service's events.
func testInventoryAndEvents(t *testing.T, h *hub, client agentv1connect.AgentServiceClient, web *fleetv1.Document, commit string) {
	inventory, err := client.GetInventory(t.Context(), &agentv1.GetInventoryRequest{Service: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(inventory.GetObjects()); got != 4 {
		t.Errorf("inventory: got %v, want 4 objects", inventory.GetObjects())
	}
	stream, err := client.WatchEvents(await.Context(t), &agentv1.WatchEventsRequest{Service: "web"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	h.apply(t, web)
	for stream.Receive() {
		if stream.Msg().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY {
			h.waitService(t, "web", "healthy at the second commit", healthyAt(commit))
			return
		}
	}
	t.Errorf("events ended before the service was healthy: %v", stream.Err())
}

// person returns the client of a new user with a role in the cluster; an empty one is none.
func (h *hub) person(t *testing.T, name string, role typev1.AccessRole, rules ...*typev1.AccessRule) fleetv1connect.FleetServiceClient {
	t.Helper()
	h.apply(t, &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: name}}}})
	if role != typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED {
		h.apply(t, &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{
			Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.AccessBindingSpec{
				Users: []string{name}, Role: role, Clusters: &fleetv1.ClusterSelection{Names: []string{"demo"}}, Rules: rules,
			},
		}}})
	}
	token, err := h.fleet.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: name, Label: "test"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: h.distributor.url(), Tokens: identity.StaticToken(token.GetSecret()), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return fleetv1connect.NewFleetServiceClient(client.HTTP, client.BaseURL, client.Options...)
}

// testRoles makes the calls of leat get, inventory, events, history, diff, render, sync, pause and
// apply as people with each role: the hub first names the service's cluster, and then the agent is
// asked. The service is paused, so nothing that they do reaches the cluster.
func testRoles(t *testing.T, h *hub) {
	pods := &typev1.AccessRule{Verbs: []string{"get"}, Resources: []string{"pods"}}
	const nothing, looks, acts, edits = 0, 1, 2, 3
	for _, test := range []struct {
		name  string
		role  typev1.AccessRole
		rules []*typev1.AccessRule
		level int
	}{
		{name: "nobody"},
		{name: "narrow", role: typev1.AccessRole_ACCESS_ROLE_ADMIN, rules: []*typev1.AccessRule{pods}},
		{name: "viewer", role: typev1.AccessRole_ACCESS_ROLE_VIEWER, level: looks},
		{name: "operator", role: typev1.AccessRole_ACCESS_ROLE_OPERATOR, level: acts},
		{name: "editor", role: typev1.AccessRole_ACCESS_ROLE_EDITOR, level: edits},
	} {
		fleet := h.person(t, test.name, test.role, test.rules...)
		found, err := fleetcalls.Get[*fleetv1.Service](t.Context(), fleet, "web")
		if test.level == nothing {
			if connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("%s: got %v (%v), want no such service", test.name, found, err)
			}
			continue
		}
		if err != nil || found.GetStatus() == nil || len(found.GetSpec().GetSources()) == 0 {
			t.Errorf("%s: got %v (%v), want the service and how it fares", test.name, found, err)
			continue
		}
		for call, err := range callsOf(t, h, fleet, found) {
			level, name, _ := strings.Cut(call, " ")
			want := connect.CodePermissionDenied
			if fmt.Sprint(test.level) >= level {
				want = 0
			}
			if err == nil && want != 0 || err != nil && connect.CodeOf(err) != want {
				t.Errorf("%s of %s: got %v, want code %v", name, test.name, err, want)
			}
		}
	}
}

// callsOf makes calls about a service as a person, and returns their errors by the least level that
// may make them, and a name.
func callsOf(t *testing.T, h *hub, fleet fleetv1connect.FleetServiceClient, web *fleetv1.Service) map[string]error {
	t.Helper()
	agent := h.agentClientOf(t, fleet)
	inventory, err := agent.GetInventory(t.Context(), &agentv1.GetInventoryRequest{Service: "web"})
	if err == nil && len(inventory.GetObjects()) == 0 {
		err = errors.New("the inventory is empty")
	}
	errs := map[string]error{"1 inventory": err}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if stream, err := agent.WatchEvents(ctx, &agentv1.WatchEventsRequest{Service: "web"}); err != nil {
		errs["1 events"] = err
	} else {
		// The headers confirm the subscription, or carry the refusal, which is then the stream's end.
		_ = stream.ResponseHeader()
		cancel()
		for stream.Receive() {
			continue
		}
		if connect.CodeOf(stream.Err()) == connect.CodePermissionDenied {
			errs["1 events"] = stream.Err()
		}
		_ = stream.Close()
	}
	_, errs["1 history"] = fleet.ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: "web"})
	_, errs["2 diff"] = agent.Diff(t.Context(), &agentv1.DiffRequest{Service: "web"})
	_, errs["2 plan"] = fleet.GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "web"})
	_, errs["2 sync"] = fleet.SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "web"})
	branch := &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "feature"}}
	_, errs["2 preview"] = fleet.PreviewService(t.Context(), &fleetv1.PreviewServiceRequest{Name: "web", Ref: branch})
	confirmed := proto.CloneOf(web)
	confirmed.Metadata.ResourceVersion = 0
	confirmed.Spec.Sync = &fleetv1.SyncOptions{PruneConfirmation: "sha256:" + strings.Repeat("1", 64)}
	_, errs["2 confirm"] = fleetcalls.Update(t.Context(), fleet, confirmed)
	edited := proto.CloneOf(confirmed)
	edited.Metadata.Labels = map[string]string{"edited": "yes"}
	_, errs["3 update"] = fleetcalls.Update(t.Context(), fleet, edited)
	return errs
}
