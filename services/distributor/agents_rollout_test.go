// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
)

// upgrading are agents that are delivered by the hub. They speak the protocol of agents over streams of their own, and
// apply nothing: what becomes of a version follows from its digest.
type upgrading struct {
	hub  *hub
	keys map[string]string // tokens by cluster; they do not change

	mu sync.Mutex
	// stuck are versions whose pod never gets ready, and mute ones that take over and do not connect.
	stuck, mute map[string]bool
	// took are the versions that each cluster's agent took, in order, and order the clusters by version, as they took it.
	took, order map[string][]string
}

// join enrols an agent in each cluster, and starts it.
func (u *upgrading) join(t *testing.T, clusters []string) {
	t.Helper()
	for _, cluster := range clusters {
		u.keys[cluster] = u.hub.enrol(t, cluster).token
		u.start(t, cluster)
	}
}

// start runs the agent of a cluster until the test ends, or until a version mutes it.
func (u *upgrading) start(t *testing.T, cluster string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { u.work(ctx, t, cluster) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// work follows the plan over a stream, and reports each one whole.
func (u *upgrading) work(ctx context.Context, t *testing.T, cluster string) {
	client, instance, sequence, reported := u.hub.agents(t, u.keys[cluster]), fmt.Sprintf("pod-%d", time.Now().UnixNano()), uint64(0), ""
	for ctx.Err() == nil {
		stream, err := client.WatchPlan(ctx, &distributorv1.WatchPlanRequest{})
		if err != nil {
			continue
		}
		for stream.Receive() {
			res, err := client.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: reported})
			if err != nil || res.GetUnchanged() {
				continue
			}
			report := &distributorv1.ReportStatusRequest{
				PlanVersion: res.GetPlan().GetVersion(), Instance: instance, Full: true,
				Cluster: &distributorv1.ClusterReport{KubernetesVersion: "v1.36.3", Capabilities: renderstep.WordsKnown()},
			}
			isMute := false
			for _, entry := range res.GetPlan().GetServices() {
				if len(entry.GetBundles()) == 0 {
					continue
				}
				service, mutes := u.take(cluster, entry)
				report.Services, isMute = append(report.Services, service), isMute || mutes
			}
			if isMute {
				_ = stream.Close()
				return
			}
			sequence++
			report.Sequence = sequence
			if answer, err := client.ReportStatus(ctx, report); err == nil && !answer.GetWantFull() {
				reported = report.GetPlanVersion()
			}
		}
		_ = stream.Close()
	}
}

// take returns what becomes of an entry, and whether it mutes the agent.
func (u *upgrading) take(cluster string, entry *distributorv1.PlanService) (report *distributorv1.ServiceReport, isMute bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	d, commits := entry.GetBundles()[0].GetDigest(), []string{entry.GetBundles()[0].GetCommit()}
	if took := u.took[cluster]; len(took) == 0 || took[len(took)-1] != d {
		u.took[cluster], u.order[d] = append(took, d), append(u.order[d], cluster)
	}
	report = &distributorv1.ServiceReport{
		Service: entry.GetName(), ServiceUid: entry.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, ObservedSpecDigest: entry.GetSpecDigest(),
		AppliedDigests: []string{d}, AppliedCommits: commits, ObservedDigests: []string{d}, ObservedCommits: commits,
		AppliedConfigDigest: entry.GetConfigDigest(), ObservedConfigDigest: entry.GetConfigDigest(),
	}
	if u.stuck[d] { // as the former agent, which works on, reports its Deployment
		report.Phase = typev1.ServicePhase_SERVICE_PHASE_DEGRADED
		report.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_HEALTH_TIMEOUT, Message: "Deployment leat-agent has not progressed within its deadline"}
	}
	return report, u.mute[d]
}

// runs reports whether the agents of all these clusters took that version last.
func (u *upgrading) runs(f *folder, clusters ...string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !slices.ContainsFunc(clusters, func(cluster string) bool {
		took := u.took[cluster]
		return len(took) == 0 || took[len(took)-1] != f.snapshot.GetDigest()
	})
}

// takers returns the clusters whose agents took a version, in their order, each once.
func (u *upgrading) takers(f *folder) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var once []string
	for _, cluster := range u.order[f.snapshot.GetDigest()] {
		if !slices.Contains(once, cluster) {
			once = append(once, cluster)
		}
	}
	return once
}

// TestAgentsAreUpgradedInWaves brings versions of the agent to 200 clusters by the documents of examples/agents. The pod
// of one version does not become ready, and an agent of another one does not come back: both end in the first wave,
// where no other cluster sees them. A good one reaches all, wave by wave.
func TestAgentsAreUpgradedInWaves(t *testing.T) {
	t.Parallel()
	h := startHub(t, local)
	regions, clusters := []string{"eu", "us", "sa", "ap"}, []string{"eu-lab"}
	var documents []*fleetv1.Document
	for i := range 199 {
		name := fmt.Sprintf("c-%03d", i)
		clusters = append(clusters, name)
		document := clusterDocument(name)
		document.GetCluster().Metadata.Labels = map[string]string{"agents": "leat", "region": regions[i%len(regions)]}
		documents = append(documents, document)
	}
	versions := map[string]*folder{}
	for tag, content := range map[string]string{"0.2.0": "good", "0.3.0": "stuck", "0.4.0": "mute", "0.5.0": "better"} {
		versions[tag] = newFolder(t, tag, content)
		h.git.set("leat-agent", "@"+tag, versions[tag])
	}
	digestOf := func(tag string) string { return versions[tag].snapshot.GetDigest() }
	fleet := &upgrading{
		hub: h, keys: map[string]string{}, took: map[string][]string{}, order: map[string][]string{},
		stuck: map[string]bool{digestOf("0.3.0"): true}, mute: map[string]bool{digestOf("0.4.0"): true},
	}
	var template *fleetv1.GlobalService
	var policy *fleetv1.RolloutPolicy
	for _, document := range exampleDocuments(t, "../../examples/agents/agents.yaml") {
		switch {
		case document.GetGlobalService() != nil:
			template = document.GetGlobalService()
		case document.GetRolloutPolicy() != nil:
			policy = document.GetRolloutPolicy()
		default:
			documents = append(documents, document)
		}
	}
	h.apply(t, append(documents, fleetdoc.Of(template))...)
	fleet.join(t, clusters)
	await.True(t, "the first version everywhere", func() bool { return fleet.runs(versions["0.2.0"], clusters...) })
	// A test waits for events, and not for an hour.
	policy.Spec.FailAfter, policy.Spec.OfflineAfter = durationpb.New(time.Second), durationpb.New(time.Second)
	for _, wave := range policy.GetSpec().GetWaves() {
		wave.Soak = durationpb.New(time.Second)
	}
	h.apply(t, fleetdoc.Of(policy))
	await.True(t, "the policy to take the agents over", func() bool {
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.fleet(t, adminToken), "agents")
		return err == nil && int(res.GetStatus().GetTakenOver()) == len(clusters)
	})
	bring := func(tag, state string) (why string) {
		t.Helper()
		template.Spec.Template.Sources[0].Ref = &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: tag}}
		h.apply(t, fleetdoc.Of(template))
		var latest *fleetv1.Rollout
		await.True(t, "the rollout of "+tag+" to end", func() bool {
			latest = latestRollout(t, h, "agents")
			return latest.GetEndedAt() != nil && len(fleet.takers(versions[tag])) > 0
		})
		res, err := h.rollouts(t, adminToken).GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "agents", Number: latest.GetNumber()})
		if err != nil {
			t.Fatal(rpcerr.Message(err))
		}
		if latest.GetState() != state {
			t.Fatalf("%s: the rollout is %s (%s), want %s", tag, latest.GetState(), res.GetRollout().GetWhy(), state)
		}
		return res.GetRollout().GetWhy()
	}
	if got := bring("0.3.0", "rolledBack"); !strings.Contains(got, "has not progressed") {
		t.Errorf("got the reason %q, want that of the Deployment in it", got)
	}
	await.True(t, "the former version in the lab", func() bool { return fleet.runs(versions["0.2.0"], "eu-lab") })
	if got := bring("0.4.0", "rolledBack"); !strings.Contains(got, "its cluster is offline since") {
		t.Errorf("got the reason %q, want the silence in it", got)
	}
	for _, tag := range []string{"0.3.0", "0.4.0"} {
		if got := fleet.takers(versions[tag]); !slices.Equal(got, []string{"eu-lab"}) {
			t.Errorf("the agents of %v took version %s, want the first wave's alone", got, tag)
		}
	}
	fleet.start(t, "eu-lab") // a person starts the former version there
	await.True(t, "the former version in the lab again", func() bool { return fleet.runs(versions["0.2.0"], clusters...) })
	bring("0.5.0", "completed")
	if !fleet.runs(versions["0.5.0"], clusters...) {
		t.Error("the rollout is complete, and not all agents have its version")
	}
	wantWaves(t, h, fleet.takers(versions["0.5.0"]))
}

// wantWaves checks that no cluster took a version before all of the waves before its own.
func wantWaves(t *testing.T, h *hub, takers []string) {
	t.Helper()
	waves, sizes := map[string]string{}, map[string]int{}
	request := &fleetv1.GetRolloutRequest{Name: "agents", Number: latestRollout(t, h, "agents").GetNumber(), Page: &typev1.Page{Size: 500}}
	for {
		res, err := h.rollouts(t, adminToken).GetRollout(t.Context(), request)
		if err != nil {
			t.Fatal(rpcerr.Message(err))
		}
		for _, m := range res.GetMembers() {
			waves[strings.TrimPrefix(m.GetService(), "leat-agent@")] = m.GetWave()
			sizes[m.GetWave()]++
		}
		if request.Page.Token = res.GetNextPageToken(); request.GetPage().GetToken() == "" {
			break
		}
	}
	if sizes["lab"] != 1 || sizes["one-per-region"] != 4 || sizes["tenth"] != 20 || sizes["rest"] != 175 {
		t.Fatalf("got waves of %v, want 1, 4, 20 and 175", sizes)
	}
	begin := 0
	for _, wave := range []string{"lab", "one-per-region", "tenth", "rest"} {
		for _, cluster := range takers[begin : begin+sizes[wave]] {
			if waves[cluster] != wave {
				t.Errorf("%s of wave %s took the version in the turn of wave %s", cluster, waves[cluster], wave)
			}
		}
		begin += sizes[wave]
	}
}
