// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// waitTakenOver waits until the policy waves holds so many services.
func (h *hub) waitTakenOver(t *testing.T, services int32) {
	t.Helper()
	await.True(t, "the policy to take the services over", func() bool {
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.fleet(t, adminToken), "waves")
		return err == nil && res.GetStatus().GetTakenOver() == services
	})
}

// waitCanary waits until a rollout of that number waits for an approval after the canary.
func (h *hub) waitCanary(t *testing.T, number int64) {
	t.Helper()
	await.True(t, "the canary to wait for an approval", func() bool {
		r := latestRollout(t, h, "waves")
		return r.GetNumber() == number && r.GetWave() == "canary" && r.GetArrived() == 1 && strings.Contains(r.GetWaitsFor(), "approve")
	})
}

func (h *hub) approve(t *testing.T) {
	t.Helper()
	if _, err := h.rollouts(t, adminToken).ApproveRollout(t.Context(), &fleetv1.ApproveRolloutRequest{Name: "waves"}); err != nil {
		t.Fatal(err)
	}
}

func (h *hub) control(t *testing.T, verb string) {
	t.Helper()
	if _, err := h.rollouts(t, adminToken).ControlRollout(t.Context(), &fleetv1.ControlRolloutRequest{Name: "waves", Verb: verb}); err != nil {
		t.Fatal(err)
	}
}

func (h *hub) waitCompleted(t *testing.T, number int64) {
	t.Helper()
	await.True(t, "the rollout to complete", func() bool {
		r := latestRollout(t, h, "waves")
		return r.GetNumber() == number && r.GetState() == "completed"
	})
	res, err := h.rollouts(t, adminToken).ReplayRollout(t.Context(), &fleetv1.ReplayRolloutRequest{Name: "waves", Number: number})
	if err != nil || res.GetDifference() != "" || res.GetDecisions() == 0 {
		t.Errorf("replaying rollout %d: got %v, %v", number, res, err)
	}
}

// checkNamed checks that the answer to an edit of all services, or of their global service, names the rollout that
// brings it.
func checkNamed(t *testing.T, edit string, res *fleetv1.ApplyResponse, number int64) {
	t.Helper()
	named := 0
	for _, outcome := range res.GetOutcomes() {
		if outcome.GetAction() == fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
			continue
		}
		rollout := cmp.Or(outcome.GetDocument().GetService().GetStatus().GetRollout(), outcome.GetDocument().GetGlobalService().GetStatus().GetRollout())
		text := fmt.Sprintf("rollout %d of rolloutpolicy waves brings it, and %d of %d services have it; leat rollout status waves shows each",
			number, rollout.GetArrived(), rollout.GetTotal())
		if rollout.GetPolicy() != "waves" || rollout.GetNumber() != number || rollout.GetTotal() < 3 || rollout.GetArrived() > 1 ||
			!slices.Equal(outcome.GetWarnings(), []string{text}) {
			t.Errorf("edit %s: got %v and the warnings %q, want rollout %d", edit, rollout, outcome.GetWarnings(), number)
		}
		named++
	}
	if named == 0 {
		t.Errorf("edit %s: got %v, want an outcome that names a rollout", edit, res)
	}
}

// TestSecEditsWaitForTheWaves edits the specs of services under a policy, one field after the
// other. Each edit reaches the canary alone until a person approves it, also at a second replica
// and after a restart.
func TestSecEditsWaitForTheWaves(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	shared := func(c *distributor.Config) { c.DatabaseURL, c.Intervals.RolloutWait = url, await.Patience }
	h := startHub(t, shared)
	clusters := []string{"one", "two", "three", "four", "five"}
	h.git.set("demo", "app@next", newFolder(t, "c1n", "the same folder of another branch"))
	other := newFolder(t, "c1o", "another folder")
	h.git.set("demo", "other", other)
	h.git.set("extra", "other", newFolder(t, "c1e", "another repository"))
	h.apply(t, repositoryDocument("extra"))
	h.demo(t, newFolder(t, "c1", "first"))
	spec := proto.CloneOf(serviceDocument("app", "one", "demo", "app").GetService().GetSpec())
	documents := func() (all []*fleetv1.Document) {
		for _, cluster := range clusters {
			document := serviceDocument("app", cluster, "demo", "app")
			document.GetService().Spec = proto.CloneOf(spec)
			document.GetService().Spec.Cluster = cluster
			all = append(all, document)
		}
		return all
	}
	for _, cluster := range clusters[1:] {
		h.apply(t, clusterDocument(cluster))
	}
	h.apply(t, documents()...)
	agents := newCrew(t, h, clusters...)
	shape := "c1 in default, recreate=false"
	await.True(t, "the first spec everywhere", func() bool { return agents.runs(shape, clusters...) })
	h.apply(t, fleetdoc.Of(wavesPolicy("waves")))
	h.waitTakenOver(t, 5)

	values, err := structpb.NewStruct(map[string]any{"tag": "v2"})
	if err != nil {
		t.Fatal(err)
	}
	for i, edit := range []struct {
		change func()
		shape  string
		// phrases are its texts for people.
		phrases []string
	}{
		{func() { spec.Namespace = "shop" }, "c1 in shop, recreate=false", []string{"namespace default -> shop"}},
		{func() { spec.Policy = &typev1.SyncPolicy{Recreate: true} }, "c1 in shop, recreate=true", []string{"policy recreate"}},
		{func() {
			spec.Sources[0].Ref = &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "next"}}
		}, "c1n in shop, recreate=true", []string{"source ref main -> next"}},
		{func() {
			spec.Sources[0].Path, spec.Sources[0].Ref = "other", nil
		}, "c1o in shop, recreate=true", []string{"source ref next -> HEAD", "source path app -> other"}},
		{func() {
			spec.Render = []*typev1.RenderStep{{Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{Values: values}}}}
		}, "c1o in shop, recreate=true tag=v2", []string{"render steps"}},
		{func() { spec.Sources[0].Repository = "extra" }, "c1e in shop, recreate=true tag=v2", []string{"source repository demo -> extra"}},
	} {
		edit.change()
		checkNamed(t, edit.shape, h.apply(t, documents()...), int64(i+1))
		h.waitCanary(t, int64(i+1))
		if changes := latestRollout(t, h, "waves").GetChanges(); !slices.Equal(changes, edit.phrases) {
			t.Errorf("edit %d: got that the rollout changes %q, want %q", i+1, changes, edit.phrases)
		}
		if !agents.runs(edit.shape, "one") || !agents.runs(shape, clusters[1:]...) || agents.everRan(edit.shape, clusters[1:]...) {
			t.Errorf("edit %d: want it in the canary, and in no other cluster", i+1)
		}
		service := h.waitService(t, "app@two", func(s *fleetv1.Service) bool { return s.GetStatus().GetHold() != nil })
		if s := service.GetStatus(); s.GetHold().GetPolicy() != "waves" || !slices.Equal(s.GetHold().GetSpecChanges(), edit.phrases) || s.GetObservedGeneration() == service.GetMetadata().GetGeneration() {
			t.Errorf("edit %d: got %v, want that the policy holds the spec, and that no agent has seen this generation", i+1, s)
		}
		if i == 0 { // another replica plans the same, and continues after this one
			next := startReplica(t, h.git, shared)
			for _, cluster := range clusters {
				here, there := agents.planAt(t, h, cluster), agents.planAt(t, next, cluster)
				if here != there {
					t.Errorf("%s: two replicas plan %s and %s", cluster, here, there)
				}
			}
			agents.hub.Store(next)
			h.stop(t)
			h = next
			if agents.everRan(edit.shape, clusters[1:]...) {
				t.Error("a restarted replica gave the edit to all")
			}
		}
		if spec.GetSources()[0].GetRepository() == "extra" {
			res, _ := h.download(t, agents.tokens["two"], other.snapshot.GetDigest(), nil)
			if res.StatusCode != http.StatusOK {
				t.Errorf("got %s for the bundle of a repository that the edited spec does not name", res.Status)
			}
		}
		h.approve(t)
		h.waitCompleted(t, int64(i+1))
		if shape = edit.shape; !agents.runs(shape, clusters...) {
			t.Errorf("edit %d: the rollout is complete, and not all clusters have it", i+1)
		}
	}
}

// TestEditsInTheMiddle edits specs while a commit waits in the canary, pauses a member, and takes an edit back.
func TestEditsInTheMiddle(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	clusters := []string{"one", "two", "three"}
	h.demo(t, newFolder(t, "c1", "first"))
	inNamespace := func(namespace string, paused ...string) (all []*fleetv1.Document) {
		for _, cluster := range clusters {
			document := serviceDocument("app", cluster, "demo", "app")
			document.GetService().Spec.Namespace, document.GetService().Spec.Paused = namespace, slices.Contains(paused, cluster)
			all = append(all, document)
		}
		return all
	}
	h.apply(t, clusterDocument("two"), clusterDocument("three"))
	h.apply(t, inNamespace("a")...)
	agents := newCrew(t, h, clusters...)
	await.True(t, "the first spec everywhere", func() bool { return agents.runs("c1 in a, recreate=false", clusters...) })
	h.apply(t, fleetdoc.Of(wavesPolicy("waves")))
	h.waitTakenOver(t, 3)
	moveTo(h, newFolder(t, "c2", "second"))
	h.waitCanary(t, 1)

	h.apply(t, inNamespace("b", "two")...)
	await.True(t, "the pause at once", func() bool { return agents.isPaused("two") })
	if agents.everRan("c1 in b, recreate=false", clusters...) || agents.everRan("c2 in b, recreate=false", clusters...) {
		t.Error("the edit came in the middle of a rollout")
	}
	h.apply(t, inNamespace("b")...)
	await.True(t, "the end of the pause at once", func() bool { return !agents.isPaused("two") })
	h.approve(t)
	h.waitCanary(t, 2)
	if !agents.runs("c2 in b, recreate=false", "one") || !agents.runs("c2 in a, recreate=false", "two", "three") {
		t.Error("want the edit in the canary, after the commit everywhere")
	}

	h.control(t, "rollback")
	await.True(t, "the edit to go back", func() bool { return latestRollout(t, h, "waves").GetState() == "rolledBack" })
	await.True(t, "the earlier spec everywhere", func() bool { return agents.runs("c2 in a, recreate=false", clusters...) })
	moveTo(h, newFolder(t, "c3", "third"))
	h.waitCanary(t, 3)
	if !agents.runs("c3 in a, recreate=false", "one") || agents.everRan("c3 in b, recreate=false", clusters...) {
		t.Error("want the commit with the spec that all have")
	}
	if _, err := h.rollouts(t, adminToken).RollbackService(t.Context(), &fleetv1.RollbackServiceRequest{Name: "app@two", Revision: 1}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the pin at once", func() bool { return agents.runs("c1 in a, recreate=false", "two") })
}

const gitTemplate = `apiVersion: leat.dev/v1
kind: GlobalService
metadata: {name: web}
spec:
  clusters: {labels: {matchLabels: {tier: edge}}}
  template:
    namespace: NAMESPACE
    sources: [{repository: demo, path: app}]
`

// TestSecTemplatesFromGitWaitForTheWaves has a fleet source write another template. It is with the
// canary alone until a person approves it, and a cluster that is selected meanwhile is not the
// first to have it.
func TestSecTemplatesFromGitWaitForTheWaves(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "first"))
	template := func(commit, namespace string) {
		h.commit(t, "fleet", commit, map[string]string{"web.yaml": strings.ReplaceAll(gitTemplate, "NAMESPACE", namespace)})
	}
	template("f1", "a")
	h.apply(t, append(parsedDocuments(t, fleetRepository+fleetItself), repositoryDocument("demo"),
		labelledCluster("one", edge("eu")), labelledCluster("two", edge("eu")), labelledCluster("three", edge("eu")), clusterDocument("four"))...)
	agents := newCrew(t, h, "one", "two", "three", "four")
	await.True(t, "the first template everywhere", func() bool { return agents.runs("c1 in a, recreate=false", "one", "two", "three") })
	policy := wavesPolicy("waves")
	policy.Spec.Services = []string{"web"}
	h.apply(t, fleetdoc.Of(policy))
	h.waitTakenOver(t, 3)

	template("f2", "b")
	h.waitCanary(t, 1)
	next := "c1 in b, recreate=false"
	if !agents.runs(next, "one") || agents.everRan(next, "two", "three") {
		t.Error("want the template in the canary, and in no other cluster")
	}
	h.apply(t, labelledCluster("four", edge("us")))
	service := h.waitService(t, "web@four", func(s *fleetv1.Service) bool { return s.GetStatus().GetHold() != nil })
	hold := service.GetStatus().GetHold()
	if hold.GetPolicy() != "waves" || !strings.Contains(hold.GetWaitsFor(), "template of global service web") || agents.everRan(next, "four") {
		t.Errorf("got %v, want the newcomer to wait for the template", service)
	}
	h.approve(t)
	h.waitCompleted(t, 1)
	await.True(t, "the newcomer to have what the others have", func() bool { return agents.runs(next, "one", "two", "three", "four") })
}
