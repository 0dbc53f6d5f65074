// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

func (h *hub) globals(t *testing.T, token string) fleetv1connect.GlobalServiceServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewGlobalServiceServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// globalDocument is a global service for named clusters.
func globalDocument(name string, clusters ...string) *fleetv1.Document {
	return fleetdoc.Of(&fleetv1.GlobalService{Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.GlobalServiceSpec{
		Clusters: &fleetv1.ClusterTarget{Names: clusters},
		Template: &fleetv1.ServiceSpec{Sources: []*typev1.Source{{Repository: "demo", Path: "app"}}},
	}})
}

func labelledCluster(name string, labels map[string]string) *fleetv1.Document {
	document := clusterDocument(name)
	document.GetCluster().Metadata.Labels = labels
	return document
}

// edge are the labels of a cluster that the global service of these tests selects.
func edge(region string) map[string]string {
	return map[string]string{"tier": "edge", "region": region}
}

// webGlobal is a global service with a parameter, a secret, and an override for the region us.
func webGlobal() *fleetv1.GlobalService {
	labels := func(key, value string) *fleetv1.ClusterTarget {
		return &fleetv1.ClusterTarget{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
	return &fleetv1.GlobalService{
		Metadata: &typev1.Metadata{Name: "web"},
		Spec: &fleetv1.GlobalServiceSpec{
			Clusters: labels("tier", "edge"),
			Template: &fleetv1.ServiceSpec{
				Namespace: "web-${{ self.labels.region }}",
				Sources: []*typev1.Source{{
					Repository: "demo", Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
				}},
				Config: &fleetv1.ServiceConfig{
					Values: map[string]string{"CLUSTER": "${{ self.name }}", "SIZE": "small"}, Secrets: map[string]string{"PASSWORD": hunter2},
				},
			},
			Overrides: []*fleetv1.ServiceOverride{{
				Name: "us", Clusters: labels("region", "us"),
				Config: &fleetv1.ServiceConfig{Values: map[string]string{"SIZE": "large"}, Secrets: map[string]string{"PASSWORD": "of-the-us"}},
			}},
		},
	}
}

func (h *hub) members(t *testing.T, name string) map[string]*fleetv1.GlobalServiceMember {
	t.Helper()
	res, err := h.globals(t, adminToken).ListGlobalServiceMembers(t.Context(), &fleetv1.ListGlobalServiceMembersRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]*fleetv1.GlobalServiceMember{}
	for _, member := range res.GetMembers() {
		members[member.GetCluster()] = member
	}
	return members
}

// TestGlobalServiceOnTwoReplicas follows a derived service from the document to the agent and back, over
// two replicas and a restart.
func TestGlobalServiceOnTwoReplicas(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	onPostgres := func(c *distributor.Config) { c.DatabaseURL = url }
	h := startHub(t, onPostgres)
	other := startReplica(t, h.git, onPostgres)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, repositoryDocument("demo"), labelledCluster("eu-1", edge("eu")), labelledCluster("us-1", edge("us")), clusterDocument("plain"), fleetdoc.Of(webGlobal()))
	eu, us, plain := h.enrol(t, "eu-1"), h.enrol(t, "us-1"), h.enrol(t, "plain")

	entry := func(replica *hub, agent *agentKey) *distributorv1.PlanService {
		t.Helper()
		var found *distributorv1.PlanService
		await.True(t, "the derived service", func() bool {
			found = entryOf(planOf(t, replica, agent, ""), "web")
			return found != nil && len(found.GetBundles()) == 1
		})
		return found
	}
	first := entry(h, eu)
	if got := first.GetApply().GetNamespace(); got != "web-eu" {
		t.Errorf("got namespace %q, want the parameter filled in", got)
	}
	for _, replica := range []*hub{h, other} {
		got := entry(replica, eu)
		if got.GetUid() != first.GetUid() || got.GetSpecDigest() != first.GetSpecDigest() || got.GetConfigDigest() != first.GetConfigDigest() {
			t.Errorf("got %v, want on both replicas %v", got, first)
		}
		for _, c := range []struct {
			agent          *agentKey
			name, size, pw string
		}{{eu, "eu-1", "small", hunter2}, {us, "us-1", "large", "of-the-us"}} {
			config, err := replica.config(t, c.agent.token, "web", entry(replica, c.agent).GetConfigDigest())
			if err != nil || config.GetValues()["CLUSTER"] != c.name || config.GetValues()["SIZE"] != c.size ||
				string(config.GetSecrets()["PASSWORD"]) != c.pw || config.GetConfigDigest() != entry(replica, c.agent).GetConfigDigest() {
				t.Errorf("%s: got %v, %v, want values and secrets of its own", c.name, config, err)
			}
		}
	}
	if found := entryOf(planOf(t, h, plain, ""), "web"); found != nil {
		t.Errorf("got %v in a cluster that is not selected", found)
	}
	if _, err := h.config(t, plain.token, "web", first.GetConfigDigest()); err == nil {
		t.Error("a cluster that is not selected was given the configuration")
	}

	// The report goes to one replica, and both show it.
	report := &distributorv1.ServiceReport{
		Service: "web", ServiceUid: first.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, ObservedSpecDigest: first.GetSpecDigest(),
		AppliedConfigDigest: first.GetConfigDigest(), AppliedDigests: []string{first.GetBundles()[0].GetDigest()}, AppliedCommits: []string{"c1"},
	}
	send := func(agent *agentKey, sequence uint64) {
		t.Helper()
		if _, err := other.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
			Instance: "i", Sequence: sequence, Full: true, Services: []*distributorv1.ServiceReport{report}, Cluster: &distributorv1.ClusterReport{AgentVersion: "v1"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	send(eu, 1)
	isHealthy := func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY && s.GetStatus().GetSynced()
	}
	for _, replica := range []*hub{h, other} {
		replica.waitService(t, "web@eu-1", isHealthy)
		if history := replica.history(t, "web@eu-1"); len(history) != 1 {
			t.Errorf("got history %v, want one revision", history)
		}
	}
	status := func(replica *hub) *fleetv1.GlobalServiceStatus {
		t.Helper()
		global, err := fleetcalls.Get[*fleetv1.GlobalService](t.Context(), replica.fleet(t, adminToken), "web")
		if err != nil {
			t.Fatal(err)
		}
		return global.GetStatus()
	}
	if got := status(h); got.GetClusters() != 2 || got.GetHealthy() != 1 || got.GetUnhealthy() != 0 {
		t.Errorf("got %v, want one of two clusters healthy", got)
	}
	report.Phase = typev1.ServicePhase_SERVICE_PHASE_DEGRADED
	send(eu, 2)
	await.True(t, "the degraded service", func() bool { return status(h).GetUnhealthy() == 1 && status(h).GetHealthy() == 0 })
	report.Phase = typev1.ServicePhase_SERVICE_PHASE_HEALTHY
	send(eu, 3)
	await.True(t, "the healthy service", func() bool { return status(h).GetUnhealthy() == 0 && status(h).GetHealthy() == 1 })

	send(us, 1) // it names the service of another cluster
	if s := h.service(t, "web@us-1"); s.GetStatus().GetReport() != nil {
		t.Errorf("got %v, want no report of an agent about a service of another cluster", s.GetStatus())
	}

	// A sync is one of the derived service alone.
	sync, err := h.fleet(t, adminToken).SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "web@eu-1"})
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the sync on the other replica", func() bool { return entry(other, eu).GetSyncRequest() == sync.GetSyncRequest() })
	if entry(h, us).GetSyncRequest() != "" {
		t.Error("a sync of one derived service reached another cluster")
	}

	// After a restart, everything is as it was.
	before := planOf(t, h, eu, "")
	h.stop(t)
	h.start(t)
	eu.renew(t, h)
	after := planOf(t, h, eu, before.GetVersion())
	if after != nil && after.GetVersion() != before.GetVersion() {
		t.Errorf("got plan %v after a restart, want %v", after, before)
	}
	h.waitService(t, "web@eu-1", isHealthy)
}

// TestGlobalServiceFollowsClusters joins, changes, conflicts and leaves.
func TestGlobalServiceFollowsClusters(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, repositoryDocument("demo"), labelledCluster("eu-1", edge("eu")), clusterDocument("two"), serviceDocument("web", "two", "demo", "app"), fleetdoc.Of(webGlobal()))
	if got := h.members(t, "web"); len(got) != 1 || got["eu-1"].GetMatched() != "labels" || len(got["eu-1"].GetOverrides()) != 0 {
		t.Fatalf("got %v, want eu-1 by its labels", got)
	}
	mine := h.service(t, "web@two").GetMetadata().GetUid()

	// A person's service stays.
	h.apply(t, labelledCluster("two", edge("us")))
	got := h.members(t, "web")
	if two := got["two"]; two.GetProblem().GetReason().String() != "REASON_GLOBAL_SERVICE_CONFLICT" || two.GetService().GetMetadata().GetUid() != mine {
		t.Errorf("got %v, want a conflict with the service that a person wrote", two)
	}
	client := h.fleet(t, adminToken)
	if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), client, "web@two"); err != nil {
		t.Fatal(err)
	}
	if two := h.members(t, "web")["two"]; two.GetProblem() != nil || two.GetService().GetMetadata().GetUid() == mine || two.GetOverrides()[0] != "us" {
		t.Errorf("got %v, want the derived service once the other is gone", two)
	}

	// The derived one is not edited by itself.
	err := fleetcalls.Delete[*fleetv1.Service](t.Context(), client, "web@two")
	wantReason(t, err, "SERVICE_DERIVED")
	_, err = client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{serviceDocument("web", "two", "demo", "app")}})
	wantReason(t, err, "SERVICE_DERIVED")
	_, err = fleetcalls.Update(t.Context(), client, serviceDocument("web", "two", "demo", "app").GetService())
	wantReason(t, err, "SERVICE_DERIVED")

	// A parameter that fails keeps what was; a cluster that had nothing waits.
	uid := h.service(t, "web@two").GetMetadata().GetUid()
	h.apply(t, labelledCluster("two", map[string]string{"tier": "edge"}), labelledCluster("new", map[string]string{"tier": "edge"}))
	got = h.members(t, "web")
	two := got["two"]
	if two.GetService().GetMetadata().GetUid() != uid || two.GetService().GetSpec().GetNamespace() != "web-us" ||
		!strings.Contains(two.GetProblem().GetMessage(), "spec.template.namespace") || !strings.Contains(two.GetProblem().GetMessage(), "two") {
		t.Errorf("got %v, want the last good service with a problem that names field and cluster", two)
	}
	if waits := got["new"]; waits.GetProblem().GetReason().String() != "REASON_DERIVATION_FAILED" || len(waits.GetService().GetSpec().GetSources()) != 0 {
		t.Errorf("got %v, want a service that waits", waits)
	}
	agent := h.enrol(t, "new")
	if entry := entryOf(planOf(t, h, agent, ""), "web"); entry == nil || len(entry.GetBundles()) != 0 {
		t.Errorf("got %v, want an entry without content, by which an agent removes nothing", entry)
	}
	h.stop(t)
	h.start(t)
	if entry := h.service(t, "web@two"); entry.GetStatus().GetProblem().GetReason().String() != "REASON_DERIVATION_FAILED" {
		t.Errorf("got %v after a restart, want that the service waits", entry)
	}

	// A cluster leaves.
	h.apply(t, clusterDocument("two"))
	if got := h.members(t, "web"); len(got) != 2 || got["two"] != nil {
		t.Errorf("got %v, want that two has left", got)
	}
	_, err = fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "web@two")
	wantReason(t, err, "NOT_FOUND")
}

// TestEditAloneIsDelivered makes one edit after which a derived service names a new source, and no
// other. The content must come without a push, another edit, or the next resync.
func TestEditAloneIsDelivered(t *testing.T) {
	t.Parallel()
	source := func(path, branch string) *typev1.Source {
		return &typev1.Source{Repository: "demo", Path: path, Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: branch}}}
	}
	global := func(name, path, branch string) *fleetv1.Document {
		document := globalDocument(name, "one")
		document.GetGlobalService().Spec.Template.Sources = []*typev1.Source{source(path, branch)}
		return document
	}
	for _, c := range []struct {
		name string
		edit func(t *testing.T, h *hub)
		// service and commit are the expected delivery.
		service, commit string
	}{
		{"global service", func(t *testing.T, h *hub) {
			t.Helper()
			h.apply(t, global("another", "another", "main"))
		}, "another", "c-another"},
		{"ref", func(t *testing.T, h *hub) {
			t.Helper()
			h.apply(t, global("web", "web-${{ self.labels.region }}", "stable"))
		}, "web", "c-eu-stable"},
		{"path", func(t *testing.T, h *hub) {
			t.Helper()
			h.apply(t, global("web", "another", "main"))
		}, "web", "c-another"},
		{"label", func(t *testing.T, h *hub) {
			t.Helper()
			h.apply(t, labelledCluster("one", edge("us")))
		}, "web", "c-us"},
		{"fleet source", func(t *testing.T, h *hub) {
			t.Helper()
			h.commit(t, "fleet", "c2", map[string]string{"another.yaml": "apiVersion: leat.dev/v1\nkind: GlobalService\nmetadata: {name: another}\n" +
				"spec:\n  clusters: {names: [one]}\n  template:\n    sources: [{repository: demo, path: another}]\n"})
			h.at(t, "fleet", "c2", errorsv1.Reason_REASON_UNSPECIFIED)
		}, "another", "c-another"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := startHub(t)
			for path, commit := range map[string]string{
				"app": "c-app", "web-eu": "c-eu", "web-eu@stable": "c-eu-stable", "web-us": "c-us", "another": "c-another",
			} {
				h.git.set("demo", path, newFolder(t, commit, commit))
			}
			h.commit(t, "fleet", "c1", map[string]string{"README.md": "no document"})
			h.apply(t, repositoryDocument("demo"), repositoryDocument("fleet"), labelledCluster("one", edge("eu")), serviceDocument("app", "one", "demo", "app"),
				global("web", "web-${{ self.labels.region }}", "main"), fleetSourceDocument("", "fleet", "fleet", wholeHub))
			agent := h.enrol(t, "one")
			delivered := func(service, commit string) {
				t.Helper()
				await.True(t, commit+" in the plan", func() bool {
					bundles := entryOf(planOf(t, h, agent, ""), service).GetBundles()
					return len(bundles) == 1 && bundles[0].GetCommit() == commit
				})
			}
			delivered("app", "c-app")
			delivered("web", "c-eu")
			h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
			c.edit(t, h)
			delivered(c.service, c.commit)
		})
	}
}

// TestSecExpensiveDerivationHasItsReason derives a service whose parameters cost too much together: its
// cluster keeps the service that it has, and people see why, and not an expression that merely fails.
func TestSecExpensiveDerivationHasItsReason(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	global := globalDocument("web", "one")
	h.apply(t, repositoryDocument("demo"), clusterDocument("one"), global)
	before := h.members(t, "web")["one"].GetService().GetMetadata().GetUid()
	values := map[string]string{}
	for i := range 20 {
		values[fmt.Sprintf("V%02d", i)] = "${{ lists.range(40).all(a, lists.range(40).all(b, a + b >= 0)) ? 'x' : '' }}"
	}
	global.GetGlobalService().Spec.Template.Config = &fleetv1.ServiceConfig{Values: values}
	h.apply(t, global)
	await.True(t, "the reason", func() bool {
		one := h.members(t, "web")["one"]
		return one.GetProblem().GetReason() == errorsv1.Reason_REASON_DERIVATION_TOO_EXPENSIVE && strings.Contains(one.GetProblem().GetMessage(), "spec.template.config.values") &&
			one.GetService().GetMetadata().GetUid() == before && len(one.GetService().GetSpec().GetSources()) == 1
	})
}

// worstGlobal is a global service for 60 clusters whose expressions cost little less than they may for each of
// them, which takes seconds of a core. The clusters are w-00 to w-59.
func worstGlobal() (documents []*fleetv1.Document) {
	global := globalDocument("worst")
	spec := global.GetGlobalService().Spec
	spec.Clusters = &fleetv1.ClusterTarget{All: true}
	spec.Template.Config = &fleetv1.ServiceConfig{Values: map[string]string{}}
	for i := range 12 {
		spec.Template.Config.Values[fmt.Sprintf("V%02d", i)] = "${{ lists.range(40).all(a, lists.range(40).all(b, a + b >= 0)) ? self.name : '' }}"
	}
	documents = append(documents, global)
	for i := range 60 {
		documents = append(documents, clusterDocument(fmt.Sprintf("w-%02d", i)))
	}
	return documents
}

// pending returns how many lists of clusters a hub answers while it reports that it still derives
// the global service "worst". It calls meanwhile after each of them.
func (h *hub) pending(t *testing.T, meanwhile func()) (answered int) {
	t.Helper()
	for {
		res, err := fleetcalls.Get[*fleetv1.GlobalService](t.Context(), h.fleet(t, adminToken), "worst")
		if err != nil {
			t.Fatal(err)
		}
		if res.GetStatus().GetProblem().GetReason() != errorsv1.Reason_REASON_DERIVATION_PENDING {
			return answered
		}
		if res, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), &fleetv1.ListRequest{}); err != nil || len(res.Objects) == 0 {
			t.Fatalf("got %v, %v", res, err)
		}
		answered++
		meanwhile()
	}
}

// TestSecWorstGlobalServiceFreezesNobody applies a global service that takes seconds to derive. The replica that
// takes it, another one, and one that starts with it answer everybody else meanwhile, and an agent is never
// given a plan without a service that it may have.
func TestSecWorstGlobalServiceFreezesNobody(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	onPostgres := func(c *distributor.Config) { c.DatabaseURL = url }
	h := startHub(t, onPostgres)
	other := startReplica(t, h.git, onPostgres)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, repositoryDocument("demo"), clusterDocument("one"), serviceDocument("app", "one", "demo", "app"))
	agent := h.enrol(t, "one")
	h.apply(t, worstGlobal()...)
	if got := h.pending(t, func() {}); got == 0 {
		t.Error("the replica that took the edit answered nobody before everything was derived")
	}
	await.True(t, "the edit on the other replica", func() bool {
		_, err := fleetcalls.Get[*fleetv1.GlobalService](t.Context(), other.fleet(t, adminToken), "worst")
		return err == nil
	})
	other.pending(t, func() {})
	hasWorst := func(replica *hub) bool {
		res, err := replica.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
		if err != nil {
			wantReason(t, err, "DERIVATION_PENDING")
			return false
		}
		if entryOf(res.GetPlan(), "worst") == nil || entryOf(res.GetPlan(), "app") == nil {
			t.Errorf("got %v, a plan that would have the agent remove a service", res.GetPlan())
		}
		return true
	}
	for _, replica := range []*hub{h, other} {
		await.True(t, "the plan", func() bool { return hasWorst(replica) })
	}
	h.stop(t)
	h.start(t)
	renew := sync.OnceFunc(func() { agent.renew(t, h) })
	meanwhile := func() {
		renew()
		hasWorst(h)
	}
	if got := h.pending(t, meanwhile); got == 0 {
		t.Error("a replica that starts answered nobody before everything was derived")
	}
	renew()
	await.True(t, "the plan after the start", func() bool { return hasWorst(h) })
}

// TestRemovalIsGuarded refuses an edit that takes the service from too many clusters, however it does so.
func TestRemovalIsGuarded(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	names := []string{"a", "b", "c", "d"}
	documents := []*fleetv1.Document{repositoryDocument("demo"), fleetdoc.Of(webGlobal())}
	var unlabelled []*fleetv1.Document
	for _, name := range names {
		documents = append(documents, labelledCluster(name, edge("eu")))
		unlabelled = append(unlabelled, clusterDocument(name))
	}
	h.apply(t, documents...)
	client := h.fleet(t, adminToken)

	typo := webGlobal()
	typo.Spec.Clusters.Labels.MatchLabels["tier"] = "egde"
	_, err := fleetcalls.Update(t.Context(), client, typo)
	wantReason(t, err, "REMOVAL_GUARDED")
	_, err = client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: unlabelled})
	wantReason(t, err, "REMOVAL_GUARDED")
	_, err = client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: unlabelled, DryRun: true})
	wantReason(t, err, "REMOVAL_GUARDED")
	err = fleetcalls.Delete[*fleetv1.GlobalService](t.Context(), client, "web")
	wantReason(t, err, "REMOVAL_GUARDED")
	if got := h.members(t, "web"); len(got) != len(names) {
		t.Fatalf("got %v, want all clusters after edits that were refused", got)
	}
	h.apply(t, unlabelled[0]) // one may always go

	// The digest confirms this removal, and no other.
	_, err = client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: unlabelled})
	wantReason(t, err, "REMOVAL_GUARDED")
	_, digest, found := strings.Cut(err.Error(), "spec.removal.confirmation: ")
	if !found {
		t.Fatalf("got %v, want a digest that confirms", err)
	}
	confirmed := webGlobal()
	confirmed.Spec.Removal = &fleetv1.RemovalPolicy{Confirmation: digest}
	_, err = client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: append([]*fleetv1.Document{fleetdoc.Of(confirmed)}, unlabelled[:3]...)})
	wantReason(t, err, "REMOVAL_GUARDED")
	h.apply(t, append([]*fleetv1.Document{fleetdoc.Of(confirmed)}, unlabelled...)...)
	if got := h.members(t, "web"); len(got) != 0 {
		t.Errorf("got %v, want no cluster after a confirmed removal", got)
	}

	h.apply(t, documents...)
	if _, err := client.Delete(t.Context(), &fleetv1.DeleteRequest{Kind: "GlobalService", Name: "web", Cascade: true}); err != nil {
		t.Fatal(err)
	}
	_, err = fleetcalls.Get[*fleetv1.Service](t.Context(), client, "web@a")
	wantReason(t, err, "NOT_FOUND")
}

// TestSecretsOfGlobalServicesStay reads a global service back and applies what was shown.
func TestSecretsOfGlobalServicesStay(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, repositoryDocument("demo"), labelledCluster("us-1", edge("us")), fleetdoc.Of(webGlobal()))
	agent := h.enrol(t, "us-1")
	digest := entryOf(planOf(t, h, agent, ""), "web").GetConfigDigest()
	res, err := fleetcalls.Get[*fleetv1.GlobalService](t.Context(), h.fleet(t, adminToken), "web")
	if err != nil {
		t.Fatal(err)
	}
	shown := res
	if text := shown.String(); strings.Contains(text, hunter2) || strings.Contains(text, "of-the-us") {
		t.Errorf("a secret came out: %s", text)
	}
	outcome := h.apply(t, fleetdoc.Of(shown)).GetOutcomes()[0]
	if outcome.GetAction() != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
		t.Errorf("got %v for what was shown, want unchanged", outcome.GetAction())
	}
	changed := proto.CloneOf(shown)
	changed.Metadata.ResourceVersion = 0
	changed.Spec.Template.Config.Secrets["PASSWORD"] = "another"
	h.apply(t, fleetdoc.Of(changed))
	if got := entryOf(planOf(t, h, agent, ""), "web").GetConfigDigest(); got != digest {
		t.Error("a secret that an override replaces changed the configuration of its cluster")
	}
	changed.Spec.Overrides[0].Config.Secrets["PASSWORD"] = "another, too"
	h.apply(t, fleetdoc.Of(changed))
	next := entryOf(planOf(t, h, agent, ""), "web").GetConfigDigest()
	config, err := h.config(t, agent.token, "web", next)
	if err != nil || next == digest || string(config.GetSecrets()["PASSWORD"]) != "another, too" || config.GetConfigDigest() != next {
		t.Errorf("got %v, %v, want the new secret under a new digest", config, err)
	}
}

// TestSecGlobalServiceReachesNoMore has people whose bindings hold one cluster, or global services alone,
// and an editor of a project try to reach clusters that are not theirs.
func TestSecGlobalServiceReachesNoMore(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, projectDocument("shop", nil), in("shop", clusterDocument("own")), in("shop", repositoryDocument("demo")),
		clusterDocument("one"), clusterDocument("two"), repositoryDocument("demo"), globalDocument("both", "one", "two"),
		projectDocument("default", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{
			Projects: &fleetv1.Selection{Names: []string{"shop"}}, Clusters: &fleetv1.Selection{Names: []string{"one"}},
		}}}),
		fleetdoc.Of(&fleetv1.Role{Metadata: &typev1.Metadata{Name: "templates"}, Spec: &fleetv1.RoleSpec{Permissions: []*fleetv1.RolePermission{
			{Verbs: []string{"*"}, Resources: []string{"globalservices"}}, {Verbs: []string{"use"}, Resources: []string{"repositories"}},
		}}}))
	eve, _ := c.join(t, "eve")
	c.bind(t, "eves", &fleetv1.AccessBindingSpec{
		Users: []string{"eve"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Clusters: named("one"), Repositories: []string{"demo"},
	})
	gus, _ := c.join(t, "gus")
	c.bind(t, "guss", &fleetv1.AccessBindingSpec{Users: []string{"gus"}, RoleName: "templates", Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}}})
	ada, _ := c.join(t, "ada")
	c.bind(t, "adas", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}},
	})

	_, err := c.fleet(t, eve).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{globalDocument("mine", "one")}})
	wantReason(t, err, "ACCESS_DENIED")
	_, err = fleetcalls.Get[*fleetv1.GlobalService](t.Context(), c.fleet(t, eve), "both")
	wantReason(t, err, "NOT_FOUND")
	_, err = c.globals(t, eve).ListGlobalServiceMembers(t.Context(), &fleetv1.ListGlobalServiceMembersRequest{Name: "both"})
	wantReason(t, err, "NOT_FOUND")
	err = fleetcalls.Delete[*fleetv1.Service](t.Context(), c.fleet(t, eve), "both@two")
	wantReason(t, err, "NOT_FOUND")
	err = fleetcalls.Delete[*fleetv1.Service](t.Context(), c.fleet(t, eve), "both@one")
	wantReason(t, err, "SERVICE_DERIVED")
	_, err = c.fleet(t, gus).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{in("shop", globalDocument("mine", "own"))}})
	wantReason(t, err, "ACCESS_DENIED")

	all := in("shop", globalDocument("all"))
	all.GetGlobalService().Spec.Clusters = &fleetv1.ClusterTarget{All: true}
	res, err := c.fleet(t, ada).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{all}})
	if err != nil {
		t.Fatal(err)
	}
	got := c.members(t, "shop/all")
	status := res.GetOutcomes()[0].GetDocument().GetGlobalService().GetStatus()
	if len(got) != 2 || got["own"] == nil || got["default/one"] == nil || status.GetForbidden() != 1 {
		t.Errorf("got %v with %v, want the project's own cluster and the shared one, and one that is forbidden", got, status)
	}
	named := in("shop", globalDocument("named", "default/two"))
	if _, err := c.fleet(t, ada).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{named}}); err != nil {
		t.Fatal(err)
	}
	if got := c.members(t, "shop/named"); len(got) != 0 {
		t.Errorf("got %v by naming a cluster that is not shared", got)
	}
	foreign := in("shop", globalDocument("foreign", "own"))
	foreign.GetGlobalService().Spec.Template.Sources[0].Repository = "default/demo"
	_, err = c.fleet(t, ada).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{foreign}})
	wantReason(t, err, "REFERENCE_NOT_FOUND")

	// The project's quota counts derived services.
	limited := projectDocument("shop", &fleetv1.ProjectSpec{Quotas: &fleetv1.ProjectQuotas{Services: new(int32(2))}})
	c.apply(t, limited)
	_, err = c.fleet(t, ada).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{in("shop", globalDocument("more", "own"))}})
	wantReason(t, err, "FIELD_INVALID")
	_, err = c.fleet(t, ada).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{in("shop", serviceDocument("hand", "own", "demo", "a"))}})
	wantReason(t, err, "FIELD_INVALID")

	// A share that ends takes the cluster away, guarded like other removals.
	c.apply(t, projectDocument("default", nil))
	if got := c.members(t, "shop/all"); len(got) != 1 || got["own"] == nil {
		t.Errorf("got %v after the share ended, want the project's own cluster", got)
	}
}

// TestOneMemberIsPausedAndConfirmed pauses one of a global service's services, agrees to a prune of
// it, and resumes it. The decisions are that cluster's alone, stay when the service is derived
// again and when the hub restarts, and everything else is refused as before.
func TestOneMemberIsPausedAndConfirmed(t *testing.T) {
	t.Parallel()
	for engine, change := range map[string]func(*testing.T) func(*distributor.Config){
		"sqlite": func(*testing.T) func(*distributor.Config) { return func(*distributor.Config) {} },
		"postgres": func(t *testing.T) func(*distributor.Config) {
			url := postgrestest.New(t).Database(t)
			return func(c *distributor.Config) { c.DatabaseURL = url }
		},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			h := startHub(t, change(t))
			h.git.set("demo", "app", newFolder(t, "c1", "one"))
			global := webGlobal()
			h.apply(t, repositoryDocument("demo"), labelledCluster("eu-1", edge("eu")), labelledCluster("us-1", edge("us")), fleetdoc.Of(global))
			eu, us := h.enrol(t, "eu-1"), h.enrol(t, "us-1")
			await.True(t, "content for both", func() bool {
				a, b := entryOf(planOf(t, h, eu, ""), "web"), entryOf(planOf(t, h, us, ""), "web")
				return len(a.GetBundles()) == 1 && len(b.GetBundles()) == 1
			})
			update := func(token string, change func(*fleetv1.ServiceSpec)) (*fleetv1.Service, error) {
				got, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "web@eu-1")
				if err != nil {
					t.Fatal(err)
				}
				if got.GetSpec().GetSync() == nil {
					got.Spec.Sync = &fleetv1.SyncOptions{}
				}
				change(got.GetSpec())
				res, err := fleetcalls.Update(t.Context(), h.fleet(t, token), got)
				return res, err
			}
			pause := func(s *fleetv1.ServiceSpec) { s.Paused = true }
			resume := func(s *fleetv1.ServiceSpec) { s.Paused = false }
			digest := "sha256:" + strings.Repeat("1", 64)
			want := func(what string, isPaused bool, confirmation string) {
				t.Helper()
				got := entryOf(planOf(t, h, eu, ""), "web").GetApply()
				if got.GetPaused() != isPaused || got.GetPruneConfirmation() != confirmation {
					t.Errorf("%s: got %v, want paused %t and the confirmation %q", what, got, isPaused, confirmation)
				}
				if other := entryOf(planOf(t, h, us, ""), "web").GetApply(); other.GetPaused() || other.GetPruneConfirmation() != "" {
					t.Errorf("%s: got %v in the other cluster, want it left alone", what, other)
				}
			}

			shown, err := update(adminToken, pause)
			if err != nil || !shown.GetSpec().GetPaused() {
				t.Fatalf("got %v, %v, want the service paused", shown, err)
			}
			want("paused", true, "")
			if _, err := update(adminToken, func(s *fleetv1.ServiceSpec) { s.Sync.PruneConfirmation = digest }); err != nil {
				t.Fatal(err)
			}
			want("confirmed", true, digest)

			global.Spec.Template.Config.Values["SIZE"] = "huge"
			h.apply(t, fleetdoc.Of(global))
			want("derived again", true, digest)
			h.stop(t)
			h = startReplica(t, h.git, func(c *distributor.Config) { c.DatabaseURL = h.cfg.DatabaseURL })
			want("after a restart", true, digest)
			if e := h.service(t, "web@eu-1").GetStatus().GetException(); !e.GetPaused() || e.GetPruneConfirmation() != digest || e.GetBy() != "user:admin" || e.GetAt() == nil {
				t.Errorf("got %v, want what was decided, by whom and when", e)
			}

			if _, err := update(adminToken, resume); err != nil {
				t.Fatal(err)
			}
			want("resumed", false, digest)
			if _, err := update(adminToken, func(s *fleetv1.ServiceSpec) { s.Sync.PruneConfirmation = "" }); err != nil {
				t.Fatal(err)
			}
			want("undone", false, "")

			_, err = update(adminToken, func(s *fleetv1.ServiceSpec) { s.Paused, s.Namespace = true, "elsewhere" })
			wantReason(t, err, "SERVICE_DERIVED")
			global.Spec.Paused = true
			h.apply(t, fleetdoc.Of(global))
			_, err = update(adminToken, resume)
			wantReason(t, err, "SERVICE_DERIVED")
		})
	}
}

// TestSecMembersArePausedByRight has people of three roles, and a person without a binding, decide
// about one of a global service's services.
func TestSecMembersArePausedByRight(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.git.set("demo", "app", newFolder(t, "c1", "one"))
	c.apply(t, repositoryDocument("demo"), labelledCluster("eu-1", edge("eu")), labelledCluster("us-1", edge("us")), fleetdoc.Of(webGlobal()))
	got, err := fleetcalls.Get[*fleetv1.Service](t.Context(), c.admin, "web@eu-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		role    typev1.AccessRole
		cluster string
		want    string
	}{
		"viewer":             {viewer, "eu-1", "ACCESS_DENIED"},
		"operator":           {operator, "eu-1", ""},
		"operator elsewhere": {operator, "us-1", "NOT_FOUND"},
	} {
		user := strings.ReplaceAll(name, " ", "-")
		token, _ := c.join(t, user)
		c.bind(t, user, &fleetv1.AccessBindingSpec{Users: []string{user}, Role: test.role, Clusters: named(test.cluster)})
		service := proto.CloneOf(got)
		service.Spec.Paused = true
		_, err := fleetcalls.Update(t.Context(), c.fleet(t, token), service)
		if test.want == "" && err != nil || test.want != "" && rpcerr.ReasonOf(err).String() != "REASON_"+test.want {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestOverridesOfCharts applies an override of a chart's values and of labels. It is shown as it was written, and the
// services of its clusters have it.
func TestOverridesOfCharts(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	values, err := structpb.NewStruct(map[string]any{"image": map[string]any{"tag": "v2"}, "debug": nil})
	if err != nil {
		t.Fatal(err)
	}
	global := webGlobal()
	global.Spec.TemplateLabels = map[string]string{"app": "web"}
	global.Spec.Template.Render = []*typev1.RenderStep{{Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{}}}}
	override := global.GetSpec().GetOverrides()[0]
	override.Labels = map[string]string{"tier": "back"}
	override.Render = []*fleetv1.RenderOverride{{Values: values}}
	document := fleetdoc.Of(global)
	h.apply(t, repositoryDocument("demo"), labelledCluster("eu-1", edge("eu")), labelledCluster("us-1", edge("us")), document)
	res, err := fleetcalls.Get[*fleetv1.GlobalService](t.Context(), h.fleet(t, adminToken), "web")
	if err != nil {
		t.Fatal(err)
	}
	if got := res.GetSpec().GetOverrides()[0]; !proto.Equal(got.GetRender()[0], override.GetRender()[0]) || !maps.Equal(got.GetLabels(), override.GetLabels()) {
		t.Errorf("got the override %v, want %v", got, override)
	}
	if again := h.apply(t, document).GetOutcomes()[0].GetAction(); again != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
		t.Errorf("got %v for the same document, want no change", again)
	}
	members := h.members(t, "web")
	for cluster, want := range map[string]string{"eu-1": "", "us-1": "v2"} {
		service := members[cluster].GetService()
		tag := service.GetSpec().GetRender()[0].GetHelm().GetValues().GetFields()["image"].GetStructValue().GetFields()["tag"].GetStringValue()
		hasLabel := service.GetMetadata().GetLabels()["tier"] == "back"
		if tag != want || hasLabel != (want != "") || service.GetMetadata().GetLabels()["app"] != "web" {
			t.Errorf("%s: got the tag %q and the labels %v", cluster, tag, service.GetMetadata().GetLabels())
		}
	}
}
