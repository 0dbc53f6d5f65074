// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// crew are the agents of some clusters. They run what they are told, and fail with bad content.
type crew struct {
	// hub is the replica that they talk to.
	hub atomic.Pointer[hub]

	mu  sync.Mutex
	bad map[string]bool
	// had are the digests that each cluster's agent was ever told to run, in order.
	had map[string][]string
	// specs are the specs that it was told to run, in order, as shapeOf shows them.
	specs map[string][]string
	// paused are the clusters whose agent was told to pause.
	paused map[string]bool
	// configs are the configurations that each cluster's agent was ever given, in order, as configOf shows them.
	// Agents fail with one that has badValue.
	configs  map[string][]string
	badValue string
	// tokens are the clusters' own. They do not change.
	tokens map[string]string
}

func newCrew(t *testing.T, h *hub, clusters ...string) *crew {
	t.Helper()
	c := &crew{bad: map[string]bool{}, had: map[string][]string{}, specs: map[string][]string{}, paused: map[string]bool{}, configs: map[string][]string{}, tokens: map[string]string{}}
	c.hub.Store(h)
	ctx, cancel := context.WithCancel(t.Context())
	var agents sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		agents.Wait()
	})
	for _, cluster := range clusters {
		token := h.enrol(t, cluster).token
		c.tokens[cluster] = token
		agents.Go(func() { c.work(ctx, t, cluster, token) })
	}
	return c
}

// work polls for plans, and reports what became of them, until ctx is done. Calls fail while replicas
// come and go; they are made again.
func (c *crew) work(ctx context.Context, t *testing.T, cluster, token string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	sequence, reported := uint64(0), ""
	var h *hub
	var client distributorv1connect.DistributorServiceClient
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if next := c.hub.Load(); next != h {
			h, client = next, next.agents(t, token)
		}
		res, err := client.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: reported})
		if err != nil || res.GetUnchanged() {
			continue
		}
		report := &distributorv1.ReportStatusRequest{
			PlanVersion: res.GetPlan().GetVersion(), Instance: "process", Full: true,
			Cluster: &distributorv1.ClusterReport{KubernetesVersion: "v1.36.3", Capabilities: renderstep.Words(renderstep.Helm)},
		}
		isWhole := true
		for _, entry := range res.GetPlan().GetServices() {
			if len(entry.GetBundles()) > 0 {
				config, ok := configOf(ctx, client, entry)
				if isWhole = isWhole && ok; ok {
					report.Services = append(report.Services, c.run(cluster, entry, config))
				}
			}
		}
		if !isWhole {
			continue // another plan is on its way
		}
		sequence++
		report.Sequence = sequence
		if answer, err := client.ReportStatus(ctx, report); err == nil && !answer.GetWantFull() {
			reported = report.GetPlanVersion()
		}
	}
}

// configOf returns the configuration of an entry as sorted lines. It reports false if the hub has
// another one than the plan.
func configOf(ctx context.Context, client distributorv1connect.DistributorServiceClient, entry *distributorv1.PlanService) (text string, ok bool) {
	if entry.GetConfigDigest() == "" {
		return "", true
	}
	res, err := client.GetServiceConfig(ctx, &distributorv1.GetServiceConfigRequest{Service: entry.GetName(), ConfigDigest: entry.GetConfigDigest()})
	if err != nil || res.GetConfigDigest() != entry.GetConfigDigest() {
		return "", false
	}
	var lines []string
	for key, value := range res.GetValues() {
		lines = append(lines, key+"="+value)
	}
	for key, value := range res.GetSecrets() {
		lines = append(lines, key+"="+string(value))
	}
	slices.Sort(lines)
	return strings.Join(lines, " "), true
}

// run returns what becomes of an entry.
func (c *crew) run(cluster string, entry *distributorv1.PlanService, config string) *distributorv1.ServiceReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := entry.GetBundles()[0].GetDigest()
	if had := c.had[cluster]; len(had) == 0 || had[len(had)-1] != d {
		c.had[cluster] = append(had, d)
	}
	shape := shapeOf(entry)
	if specs := c.specs[cluster]; len(specs) == 0 || specs[len(specs)-1] != shape {
		c.specs[cluster] = append(specs, shape)
	}
	c.paused[cluster] = entry.GetApply().GetPaused()
	if had := c.configs[cluster]; len(had) == 0 || had[len(had)-1] != config {
		c.configs[cluster] = append(had, config)
	}
	commits := []string{entry.GetBundles()[0].GetCommit()}
	report := &distributorv1.ServiceReport{
		Service: entry.GetName(), ServiceUid: entry.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, ObservedSpecDigest: entry.GetSpecDigest(),
		AppliedDigests: []string{d}, AppliedCommits: commits, ObservedDigests: []string{d}, ObservedCommits: commits,
		AppliedConfigDigest: entry.GetConfigDigest(), ObservedConfigDigest: entry.GetConfigDigest(),
	}
	if c.bad[d] || c.badValue != "" && strings.Contains(config, c.badValue) {
		report.Phase = typev1.ServicePhase_SERVICE_PHASE_DEGRADED
		report.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_HEALTH_TIMEOUT, Message: "Deployment web has no replica"}
	}
	return report
}

// planAt returns the version of a cluster's plan at a replica.
func (c *crew) planAt(t *testing.T, h *hub, cluster string) string {
	t.Helper()
	res, err := h.agents(t, c.tokens[cluster]).GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetPlan().GetVersion()
}

// shapeOf shows what an agent makes of an entry, without its brakes.
func shapeOf(entry *distributorv1.PlanService) string {
	apply, shape := entry.GetApply(), ""
	if steps := apply.GetRender(); len(steps) > 0 {
		shape = " tag=" + steps[0].GetHelm().GetValues().GetFields()["tag"].GetStringValue()
	}
	return fmt.Sprintf("%s in %s, recreate=%v%s", entry.GetBundles()[0].GetCommit(), apply.GetNamespace(), apply.GetPolicy().GetRecreate(), shape)
}

// runs reports whether agents of all these clusters run that shape now.
func (c *crew) runs(shape string, clusters ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(clusters, func(cluster string) bool {
		specs := c.specs[cluster]
		return len(specs) == 0 || specs[len(specs)-1] != shape
	})
}

// everRan reports whether the agent of one of the clusters was ever told to run that shape.
func (c *crew) everRan(shape string, clusters ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(clusters, func(cluster string) bool { return slices.Contains(c.specs[cluster], shape) })
}

// isGiven reports whether agents of all these clusters have that configuration now.
func (c *crew) isGiven(config string, clusters ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(clusters, func(cluster string) bool {
		had := c.configs[cluster]
		return len(had) == 0 || had[len(had)-1] != config
	})
}

// everGiven reports whether the agent of one of the clusters was ever given a configuration with that part.
func (c *crew) everGiven(part string, clusters ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(clusters, func(cluster string) bool {
		return slices.ContainsFunc(c.configs[cluster], func(had string) bool { return strings.Contains(had, part) })
	})
}

// given returns what the agent of a cluster has.
func (c *crew) given(cluster string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if had := c.configs[cluster]; len(had) > 0 {
		return had[len(had)-1]
	}
	return ""
}

func (c *crew) isPaused(cluster string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused[cluster]
}

func (c *crew) spoil(f *folder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad[f.snapshot.GetDigest()] = true
}

// has reports whether agents of all these clusters run the content now.
func (c *crew) has(f *folder, clusters ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(clusters, func(cluster string) bool {
		had := c.had[cluster]
		return len(had) == 0 || had[len(had)-1] != f.snapshot.GetDigest()
	})
}

// ever reports whether the agent of one of the clusters was ever told to run the content.
func (c *crew) ever(f *folder, clusters ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(clusters, func(cluster string) bool { return slices.Contains(c.had[cluster], f.snapshot.GetDigest()) })
}

func wavesPolicy(name string) *fleetv1.RolloutPolicy {
	return &fleetv1.RolloutPolicy{
		Metadata: &typev1.Metadata{Name: name},
		Spec: &fleetv1.RolloutPolicySpec{
			Services: []string{"app*"}, MaxUnavailable: "2", FailAfter: durationpb.New(time.Second),
			Waves: []*fleetv1.RolloutWave{{
				Name: "canary", Clusters: []string{"one"}, Soak: durationpb.New(time.Second),
				Approval: &fleetv1.RolloutApproval{Groups: []string{catalog.AdminGroup}},
			}},
		},
	}
}

func latestRollout(t *testing.T, h *hub, policy string) *fleetv1.Rollout {
	t.Helper()
	res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.fleet(t, adminToken), policy)
	if err != nil {
		t.Fatal(err)
	}
	return res.GetStatus().GetLatest()
}

// moveTo changes what the sources hold.
func moveTo(h *hub, content *folder) {
	h.git.set("demo", "app", content)
	h.git.announce("demo", "", "refs/heads/main")
}

// TestABadCommitStopsInTheCanary follows two commits to five clusters: a bad one, which goes back, and
// its fix, which another replica brings to all after an approval.
func TestABadCommitStopsInTheCanary(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	shared := func(c *distributor.Config) { c.DatabaseURL = url }
	h := startHub(t, shared)
	clusters := []string{"one", "two", "three", "four", "five"}
	others := clusters[1:]
	first, bad, fix := newFolder(t, "c1", "first"), newFolder(t, "c2", "bad"), newFolder(t, "c3", "fix")
	h.demo(t, first)
	for _, cluster := range others {
		h.apply(t, clusterDocument(cluster), serviceDocument("app", cluster, "demo", "app"))
	}
	agents := newCrew(t, h, clusters...)
	agents.spoil(bad)
	await.True(t, "the first content everywhere", func() bool { return agents.has(first, clusters...) })

	h.apply(t, fleetdoc.Of(wavesPolicy("waves")))
	await.True(t, "the policy to take the services over", func() bool {
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.fleet(t, adminToken), "waves")
		return err == nil && res.GetStatus().GetTakenOver() == 5
	})
	moveTo(h, bad)
	await.True(t, "the bad commit to go back", func() bool { return latestRollout(t, h, "waves").GetState() == "rolledBack" })
	await.True(t, "the canary to have the first content again", func() bool { return agents.has(first, clusters...) })
	if !agents.ever(bad, "one") || agents.ever(bad, others...) {
		t.Error("the bad commit must reach the canary, and nobody else")
	}
	h.wantProblem(t, "RolloutPolicy", fleetv1.ProblemSeverity_PROBLEM_SEVERITY_FAILED, "rollout 1 went back: ")
	res, err := h.rollouts(t, adminToken).GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "waves"})
	if err != nil {
		t.Fatal(err)
	}
	const cause = "HEALTH_TIMEOUT: Deployment web has no replica"
	if got, want := res.GetRollout().GetWhy(), "1 failed, 0 allowed: app@one ("+cause+")"; got != want {
		t.Errorf("got the reason %q, want %q", got, want)
	}
	if got, want := latestRollout(t, h, "waves").GetWhy(), res.GetRollout().GetWhy(); got != want {
		t.Errorf("got the reason %q in the policy's status, want that of the rollout, %q", got, want)
	}
	for _, m := range res.GetMembers() {
		if want := "it went back because it failed: " + cause; m.GetService() == "app@one" && m.GetWhy() != want {
			t.Errorf("got %q of the canary, want %q", m.GetWhy(), want)
		}
	}
	service := h.waitService(t, "app@two", func(s *fleetv1.Service) bool { return s.GetStatus().GetHold() != nil })
	if hold := service.GetStatus().GetHold(); hold.GetPolicy() != "waves" || !slices.Equal(hold.GetCommits(), []string{"c1"}) {
		t.Errorf("got hold %v, want that the policy keeps c1", hold)
	}

	moveTo(h, fix)
	await.True(t, "the fix to wait for an approval", func() bool {
		r := latestRollout(t, h, "waves")
		return r.GetNumber() == 2 && r.GetWave() == "canary" && r.GetArrived() == 1 && r.GetWaitsFor() != ""
	})
	h.wantProblem(t, "RolloutPolicy", fleetv1.ProblemSeverity_PROBLEM_SEVERITY_DEGRADED, "approve")
	next := startReplica(t, h.git, shared)
	agents.hub.Store(next)
	h.stop(t)
	if agents.ever(fix, others...) {
		t.Error("nobody approved what comes after the canary, and it came")
	}
	people := next.rollouts(t, adminToken)
	await.True(t, "the wave to take an approval", func() bool {
		_, err := people.ApproveRollout(t.Context(), &fleetv1.ApproveRolloutRequest{Name: "waves"})
		return err == nil
	})
	await.True(t, "the fix everywhere", func() bool { return latestRollout(t, next, "waves").GetState() == "completed" })
	if got := next.problemOf(t, "RolloutPolicy"); got != nil {
		t.Errorf("got %v in the status of the fleet after the rollout is completed", got)
	}
	if !agents.has(fix, clusters...) || agents.ever(bad, others...) {
		t.Error("the rollout is complete, and not all clusters have the fix")
	}
	for number := int64(1); number <= 2; number++ {
		res, err := people.ReplayRollout(t.Context(), &fleetv1.ReplayRolloutRequest{Name: "waves", Number: number})
		if err != nil || res.GetDifference() != "" || res.GetDecisions() == 0 {
			t.Errorf("replaying rollout %d: got %v, %v", number, res, err)
		}
	}
	_, err = people.ControlRollout(t.Context(), &fleetv1.ControlRolloutRequest{Name: "waves", Verb: "abort"})
	wantReason(t, err, "ROLLOUT_REFUSED")
	members, err := people.GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "waves"})
	if err != nil || len(members.GetMembers()) != 5 || members.GetMembers()[0].GetStage() != "arrived" {
		t.Errorf("got %v, %v, want five members that have arrived", members, err)
	}
	var paged []string
	for page := (&typev1.Page{Size: 2}); ; {
		res, err := people.GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "waves", Page: page})
		if err != nil || len(res.GetMembers()) > 2 || res.GetRollout().GetArrived() != 5 {
			t.Fatalf("got %v, %v, want two members of the rollout at most", res, err)
		}
		for _, m := range res.GetMembers() {
			paged = append(paged, m.GetService())
		}
		if page.Token = res.GetNextPageToken(); page.GetToken() == "" {
			break
		}
	}
	if slices.Sort(paged); len(slices.Compact(paged)) != 5 {
		t.Errorf("got %v in pages, want each of the five members once", paged)
	}
}

// TestJoinersWaitWithTheOthers has services join a policy while its rollout waits in the canary: by a
// label of their cluster, although their global service is older than the policy, and with another
// folder of the same branch. None of them has unapproved content.
func TestJoinersWaitWithTheOthers(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	first, second := newFolder(t, "c1", "first"), newFolder(t, "c2", "second")
	extra, moreExtra := newFolder(t, "c1", "extra"), newFolder(t, "c2", "more extra")
	h.git.set("demo", "app", first)
	h.git.set("demo", "extra", extra)
	web := globalDocument("web")
	web.GetGlobalService().Spec.Clusters = &fleetv1.ClusterTarget{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}}
	h.apply(t, repositoryDocument("demo"), labelledCluster("one", edge("eu")), labelledCluster("two", edge("eu")), clusterDocument("three"), clusterDocument("four"), web)
	agents := newCrew(t, h, "one", "two", "three", "four")
	await.True(t, "the first content in both clusters", func() bool { return agents.has(first, "one", "two") })
	policy := wavesPolicy("waves")
	policy.Spec.Services = []string{"web*"}
	h.apply(t, fleetdoc.Of(policy))
	await.True(t, "the policy to take the services over", func() bool {
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.fleet(t, adminToken), "waves")
		return err == nil && res.GetStatus().GetTakenOver() == 2
	})
	h.git.set("demo", "extra", moreExtra)
	moveTo(h, second)
	await.True(t, "the canary to wait for an approval", func() bool {
		r := latestRollout(t, h, "waves")
		return r.GetWave() == "canary" && r.GetArrived() == 1 && strings.Contains(r.GetWaitsFor(), "approve")
	})

	other := serviceDocument("web-extra", "four", "demo", "extra")
	other.GetService().Spec.Sources[0].Ref = web.GetGlobalService().GetSpec().GetTemplate().GetSources()[0].GetRef()
	h.apply(t, labelledCluster("three", edge("us")), other)
	await.True(t, "the joiners to have what the others have", func() bool { return agents.has(first, "three") && agents.has(extra, "four") })
	if agents.ever(second, "two", "three") || agents.ever(moreExtra, "four") {
		t.Error("nobody approved the commit, and it came")
	}
	if _, err := h.rollouts(t, adminToken).ApproveRollout(t.Context(), &fleetv1.ApproveRolloutRequest{Name: "waves"}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the commit everywhere", func() bool { return agents.has(second, "one", "two", "three") && agents.has(moreExtra, "four") })
}

// TestCanaryOfNobody writes policies whose canary has no member: because its cluster does not
// exist, which is refused, and because its label is misspelt. No cluster has the commit before a
// person approves it.
func TestCanaryOfNobody(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	first, second := newFolder(t, "c1", "first"), newFolder(t, "c2", "second")
	h.demo(t, first)
	h.apply(t, clusterDocument("two"), serviceDocument("app", "two", "demo", "app"))
	agents, people := newCrew(t, h, "one", "two"), h.rollouts(t, adminToken)
	await.True(t, "the first content everywhere", func() bool { return agents.has(first, "one", "two") })
	policy := wavesPolicy("waves")
	policy.Spec.Waves[0].Clusters = []string{"noe"}
	for _, isDry := range []bool{true, false} {
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{DryRun: isDry, Documents: []*fleetv1.Document{fleetdoc.Of(policy)}})
		wantReason(t, err, "REFERENCE_NOT_FOUND")
		if message := rpcerr.Message(err); !strings.Contains(message, `"noe"`) {
			t.Errorf("got %q, want the cluster to be named", message)
		}
	}
	policy.Spec.Waves[0].Clusters, policy.Spec.Waves[0].Labels = nil, map[string]string{"tear": "lab"}
	h.apply(t, fleetdoc.Of(policy))
	await.True(t, "the policy to take the services over", func() bool {
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.fleet(t, adminToken), "waves")
		return err == nil && res.GetStatus().GetTakenOver() == 2
	})
	for number, want := range map[int64]string{0: `"waves" has had no rollout yet`, 7: "leat rollout list waves"} {
		_, err := people.GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "waves", Number: number})
		wantReason(t, err, "NOT_FOUND")
		if message := rpcerr.Message(err); !strings.Contains(message, want) {
			t.Errorf("rollout %d of a policy without one: got %q, want %q in it", number, message, want)
		}
	}
	moveTo(h, second)
	await.True(t, "the rollout to wait for a person", func() bool {
		r := latestRollout(t, h, "waves")
		return r.GetWave() == "canary" && strings.Contains(r.GetWaitsFor(), `wave "canary" selects no member`)
	})
	if _, err := people.ApproveRollout(t.Context(), &fleetv1.ApproveRolloutRequest{Name: "waves"}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the rollout to wait after an approval, too", func() bool {
		r := latestRollout(t, h, "waves")
		return strings.Contains(r.GetWaitsFor(), "selects no member")
	})
	if agents.ever(second, "one", "two") {
		t.Error("the commit came, and nobody had it in the canary")
	}
	if _, err := people.ControlRollout(t.Context(), &fleetv1.ControlRolloutRequest{Name: "waves", Verb: "skip-wave"}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the commit everywhere", func() bool { return latestRollout(t, h, "waves").GetState() == "completed" })
	if !agents.has(second, "one", "two") {
		t.Error("the rollout is complete, and not all clusters have the commit")
	}
}

// TestWordsForSilence writes and reads each word of a policy for clusters that fall silent, and one that is not a word.
func TestWordsForSilence(t *testing.T) {
	t.Parallel()
	h, policy := startHub(t), wavesPolicy("waves")
	h.apply(t, clusterDocument("one"))
	for word, want := range map[string]string{"fail": "fail", "skip": "", "": ""} {
		policy.Spec.OnOffline = word
		h.apply(t, fleetdoc.Of(policy))
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.fleet(t, adminToken), "waves")
		if err != nil {
			t.Fatal(err)
		}
		if got := res.GetSpec().GetOnOffline(); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	policy.Spec.OnOffline = "ignore"
	_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{fleetdoc.Of(policy)}})
	wantReason(t, err, "FIELD_INVALID")
	if want := `"ignore" is neither skip nor fail`; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

// TestSecRolloutsBelongToTheirPeople has people of every role, members of a group that approves,
// and a person without a binding read a rollout and steer it.
func TestSecRolloutsBelongToTheirPeople(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	first, second := newFolder(t, "c1", "first"), newFolder(t, "c2", "second")
	c.demo(t, first)
	agents := newCrew(t, c.hub, "one")
	await.True(t, "the first content", func() bool { return agents.has(first, "one") })
	policy := wavesPolicy("waves")
	policy.Spec.Waves[0].Approval.Groups = []string{"platform"}
	c.apply(t, fleetdoc.Of(policy))
	await.True(t, "the policy to take the service over", func() bool {
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), c.fleet(t, adminToken), "waves")
		return err == nil && res.GetStatus().GetTakenOver() == 1
	})
	moveTo(c.hub, second)
	await.True(t, "the change to wait for an approval", func() bool {
		r := latestRollout(t, c.hub, "waves")
		return r.GetArrived() == 1 && r.GetWaitsFor() != ""
	})

	inProject := &fleetv1.ProjectSelection{Names: []string{"default"}}
	tokens := map[string]string{}
	for name, role := range map[string]typev1.AccessRole{"viewer": viewer, "operator": operator, "editor": typev1.AccessRole_ACCESS_ROLE_EDITOR} {
		tokens[name], _ = c.join(t, name)
		c.bind(t, name, &fleetv1.AccessBindingSpec{Users: []string{name}, Role: role, Projects: inProject})
	}
	tokens["stranger"], _ = c.join(t, "stranger", "another-platform")
	tokens["approver"], _ = c.join(t, "approver", "platform")
	tokens["approver who may only look"], _ = c.narrow(t, tokens["approver"], "approver", &fleetv1.TokenLimit{Role: viewer, Projects: inProject})
	tokens["approver elsewhere"], _ = c.narrow(t, tokens["approver"], "approver", &fleetv1.TokenLimit{Role: admins, Clusters: named("two")})

	const ok, no, hidden = "", "ACCESS_DENIED", "NOT_FOUND"
	calls := []string{"policy", "rollout", "list", "replay", "pause", "resume", "abort", "skip-wave", "approve"}
	want := map[string][]string{
		"viewer":                     {ok, ok, ok, ok, no, no, no, no, no},
		"operator":                   {ok, ok, ok, ok, ok, ok, no, no, no},
		"editor":                     {ok, ok, ok, ok, ok, ok, no, no, no},
		"stranger":                   {hidden, hidden, hidden, hidden, hidden, hidden, hidden, hidden, hidden},
		"approver elsewhere":         {hidden, hidden, hidden, hidden, hidden, hidden, hidden, hidden, hidden},
		"approver who may only look": {ok, ok, ok, ok, no, no, no, no, no},
	}
	for name, answers := range want {
		for i, call := range calls {
			err := c.steer(t, tokens[name], call)
			if answers[i] == ok && err != nil {
				t.Errorf("%s: %s: got %v", name, call, err)
			} else if answers[i] != ok && rpcerr.ReasonOf(err).String() != "REASON_"+answers[i] {
				t.Errorf("%s: %s: got %v, want %s", name, call, err, answers[i])
			}
		}
	}
	for name, seen := range map[string]int{"viewer": 1, "approver": 1, "stranger": 0} {
		res, err := fleetcalls.List[*fleetv1.RolloutPolicy](t.Context(), c.fleet(t, tokens[name]), &fleetv1.ListRequest{})
		if err != nil || len(res.Objects) != seen {
			t.Errorf("%s: got %v, %v, want %d policies", name, res, err, seen)
		}
	}
	for name, members := range map[string]int{"viewer": 1, "approver": 0} { // the service is not for the approver
		res, err := c.rollouts(t, tokens[name]).GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "waves"})
		if err != nil || len(res.GetMembers()) != members {
			t.Errorf("%s: got %v, %v, want %d members", name, res, err, members)
		}
	}
	wantReason(t, c.steer(t, tokens["approver"], "pause"), no)
	wantReason(t, c.steer(t, adminToken, "approve"), no) // not in the group
	await.True(t, "the wave to take an approval", func() bool { return c.steer(t, tokens["approver"], "approve") == nil })
	await.True(t, "the rollout to complete", func() bool { return latestRollout(t, c.hub, "waves").GetState() == "completed" })
}

// steer makes a call about the latest rollout of the policy waves.
func (c *crowd) steer(t *testing.T, token, call string) (err error) {
	t.Helper()
	people, name := c.rollouts(t, token), "waves"
	switch call {
	case "policy":
		_, err = fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), c.fleet(t, token), name)
	case "rollout":
		_, err = people.GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: name})
	case "list":
		_, err = people.ListRollouts(t.Context(), &fleetv1.ListRolloutsRequest{Name: name})
	case "replay":
		_, err = people.ReplayRollout(t.Context(), &fleetv1.ReplayRolloutRequest{Name: name, Number: 1})
	case "approve":
		_, err = people.ApproveRollout(t.Context(), &fleetv1.ApproveRolloutRequest{Name: name})
	default:
		_, err = people.ControlRollout(t.Context(), &fleetv1.ControlRolloutRequest{Name: name, Verb: call})
	}
	return err
}

// TestSecRollbackKeepsToHistory has an operator, who may roll services back, try to have one follow what
// it has never run.
func TestSecRollbackKeepsToHistory(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), repositoryDocument("demo"), serviceDocument("app", "one", "demo", "a"))
	token, _ := c.join(t, "otto")
	c.bind(t, "ones", &fleetv1.AccessBindingSpec{Users: []string{"otto"}, Role: operator, Clusters: named("one")})
	otto := c.fleet(t, token)
	for name, ref := range map[string]*typev1.GitRef{
		"a branch": {Selector: &typev1.GitRef_Branch{Branch: "feature/never-reviewed"}},
		"a tag":    {Selector: &typev1.GitRef_Tag{Tag: "v0.0.1"}},
		"a commit": {Selector: &typev1.GitRef_Commit{Commit: strings.Repeat("a", 40)}},
	} {
		document := serviceDocument("app", "one", "demo", "a")
		document.GetService().Spec.Sources[0].Ref = ref
		_, err := fleetcalls.Update(t.Context(), otto, document.GetService())
		wantReason(t, err, "ACCESS_DENIED")
		document.GetService().Spec.Paused = true
		_, err = otto.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		if wantReason(t, err, "ACCESS_DENIED"); t.Failed() {
			t.Fatalf("%s was let through", name)
		}
	}
	paused := serviceDocument("app", "one", "demo", "a")
	paused.GetService().Spec.Paused = true
	if _, err := fleetcalls.Update(t.Context(), otto, paused.GetService()); err != nil {
		t.Errorf("got %v, want an operator to pause", err)
	}
}

// TestRollbackPinsAService pins a service to its first revision, and releases it.
func TestRollbackPinsAService(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	first, second := newFolder(t, "c1", "first"), newFolder(t, "c2", "second")
	h.demo(t, first)
	agents, people := newCrew(t, h, "one"), h.rollouts(t, adminToken)
	await.True(t, "the first content", func() bool { return agents.has(first, "one") })
	_, err := people.RollbackService(t.Context(), &fleetv1.RollbackServiceRequest{Name: "app"})
	wantReason(t, err, "REVISION_UNAVAILABLE")
	moveTo(h, second)
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetSynced() && s.GetStatus().GetReport().GetAppliedDigests()[0] == second.snapshot.GetDigest()
	})
	for until, want := range map[*timestamppb.Timestamp]string{
		timestamppb.New(time.Now().Add(-time.Minute)):             "until: has passed",
		timestamppb.New(time.Now().Add(91 * 24 * time.Hour)):      "until: is more than 90 days ahead",
		{Seconds: 253402300800}:                                   "until: is not a time",
		timestamppb.New(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)): "until: is not a time",
	} {
		_, err := people.RollbackService(t.Context(), &fleetv1.RollbackServiceRequest{Name: "app", Until: until})
		wantReason(t, err, "FIELD_INVALID")
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", until, err, want)
		}
	}
	end := time.Now().Add(time.Hour)
	res, err := people.RollbackService(t.Context(), &fleetv1.RollbackServiceRequest{Name: "app", Until: timestamppb.New(end)})
	if err != nil || res.GetRevision() != 1 || !slices.Equal(res.GetCommits(), []string{"c1"}) {
		t.Fatalf("got %v, %v, want revision 1", res, err)
	}
	service := h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetSynced() && agents.has(first, "one") })
	if hold := service.GetStatus().GetHold(); hold.GetPinnedRevision() != 1 || hold.GetPinnedBy() != "admin" || !hold.GetPinnedUntil().AsTime().Equal(end) || service.GetMetadata().GetGeneration() != 1 {
		t.Errorf("got %v, want a pin by admin and the same generation", service)
	}
	h.wantProblem(t, "Service", fleetv1.ProblemSeverity_PROBLEM_SEVERITY_WARNING, "is pinned to revision 1 of its history; what is new waits until "+end.UTC().Format(time.RFC3339))
	h.stop(t)
	h = startReplica(t, h.git, func(c *distributor.Config) { c.DatabaseURL = h.cfg.DatabaseURL })
	agents.hub.Store(h)
	moveTo(h, newFolder(t, "c3", "third"))
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetSources()[0].GetSnapshot().GetCommit() == "c3" && s.GetStatus().GetHold().GetPinnedRevision() == 1 && s.GetStatus().GetSynced()
	})
	_, err = h.rollouts(t, adminToken).ReleaseService(t.Context(), &fleetv1.ReleaseServiceRequest{Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetSynced() && s.GetStatus().GetHold() == nil })
	if agents.ever(second, "one") && agents.has(first, "one") {
		t.Error("the service was released, and has its pinned content")
	}
}
