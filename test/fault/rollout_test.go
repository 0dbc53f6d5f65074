// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

// crew are the agents of some clusters. One that is given other content than its first is healthy with it once
// the test lets it.
type crew struct {
	mu sync.Mutex
	// at is the replica that agents talk to, calls the context of their calls to it, and leave ends these.
	at    int
	calls context.Context
	leave context.CancelFunc
	// allowed is how many further agents may be healthy with later content.
	allowed int
	// had is the content of the service app that each cluster was given, in order.
	had map[string][]string
	// isHealthy holds the clusters that are healthy with later content.
	isHealthy map[string]bool
}

// allow lets so many further agents be healthy with later content.
func (c *crew) allow(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowed += n
}

func (c *crew) healthy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.isHealthy)
}

// phase returns what becomes of the content in a cluster.
func (c *crew) phase(cluster, digest string) typev1.ServicePhase {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.had[cluster]
	if len(had) == 0 || had[len(had)-1] != digest {
		had = append(had, digest)
		c.had[cluster] = had
	}
	if digest != had[0] && !c.isHealthy[cluster] {
		if c.allowed == 0 {
			return typev1.ServicePhase_SERVICE_PHASE_PROGRESSING
		}
		c.allowed--
		c.isHealthy[cluster] = true
	}
	return typev1.ServicePhase_SERVICE_PHASE_HEALTHY
}

// moveTo has agents talk to another replica, and not wait for the answers of the last one.
func (c *crew) moveTo(ctx context.Context, replica int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leave != nil {
		c.leave()
	}
	c.at = replica
	c.calls, c.leave = context.WithCancel(ctx)
}

func (c *crew) where() (replica int, calls context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, c.calls
}

// work has the agent of a cluster poll and report until ctx is done.
func (c *crew) work(ctx context.Context, cluster string, replicas []distributorv1connect.DistributorServiceClient) {
	for sequence := uint64(1); ctx.Err() == nil; sequence++ {
		replica, calls := c.where()
		c.report(calls, cluster, replicas[replica], sequence)
		rest(ctx, 100*time.Millisecond)
	}
}

// report reports on the plan. Calls fail while replicas come and go; they are made again.
func (c *crew) report(ctx context.Context, cluster string, hub distributorv1connect.DistributorServiceClient, sequence uint64) {
	res, err := hub.GetPlan(ctx, &distributorv1.GetPlanRequest{})
	if err != nil {
		return
	}
	report := &distributorv1.ReportStatusRequest{
		PlanVersion: res.GetPlan().GetVersion(), Instance: "process", Full: true, Sequence: sequence,
		Cluster: &distributorv1.ClusterReport{KubernetesVersion: "v1.36.3"},
	}
	for _, entry := range res.GetPlan().GetServices() {
		if len(entry.GetBundles()) == 0 {
			continue
		}
		digests, phase := []string{entry.GetBundles()[0].GetDigest()}, typev1.ServicePhase_SERVICE_PHASE_HEALTHY
		if strings.HasSuffix(entry.GetName(), "-app") {
			phase = c.phase(cluster, digests[0])
		}
		commits := []string{entry.GetBundles()[0].GetCommit()}
		report.Services = append(report.Services, &distributorv1.ServiceReport{
			Service: entry.GetName(), ServiceUid: entry.GetUid(), Phase: phase, ObservedSpecDigest: entry.GetSpecDigest(),
			AppliedDigests: digests, AppliedCommits: commits, ObservedDigests: digests, ObservedCommits: commits,
		})
	}
	_, _ = hub.ReportStatus(ctx, report)
}

func (h *hub) rollouts(t *testing.T, replica *process) fleetv1connect.RolloutServiceClient {
	t.Helper()
	c := h.to(t, slices.Index(h.distributors, replica), adminToken)
	return fleetv1connect.NewRolloutServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

var beganTerm = regexp.MustCompile(`this replica drives the rollouts".*"term":([0-9]+)`)

// termOf returns the last term in which a replica drove rollouts, or 0.
func termOf(t *testing.T, p *process) int {
	t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	found := beganTerm.FindAllSubmatch(log, -1)
	if len(found) == 0 {
		return 0
	}
	term, err := strconv.Atoi(string(found[len(found)-1][1]))
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// awaitTerm waits until a replica drives rollouts in a term after that one.
func awaitTerm(t *testing.T, p *process, after int) (term int) {
	t.Helper()
	await.Poll(t, p.name+" to drive the rollouts", pause, func() (bool, string) {
		term = termOf(t, p)
		return term > after, ""
	})
	return term
}

// TestRolloutThroughAFreezeAndAnEnd freezes the replica that drives a rollout, and stops the one that took over
// from it, each in the middle; the long form kills that one. The rollout reaches every member, once, and its log
// replays.
func TestRolloutThroughAFreezeAndAnEnd(t *testing.T) {
	t.Parallel()
	const clusters = 6
	h := newHub(t, scale{repositories: 1, lease: 2 * time.Second, poll: 5 * time.Second}, 2, clusters, 5*time.Second)
	first, second := h.distributors[0], h.distributors[1]
	agents := &crew{had: map[string][]string{}, isHealthy: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	agents.moveTo(ctx, 0)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	for i := range clusters {
		token := h.enrol(t, clusterName(i))
		replicas := []distributorv1connect.DistributorServiceClient{h.agents(t, 0, token), h.agents(t, 1, token)}
		working.Go(func() { agents.work(ctx, clusterName(i), replicas) })
	}
	await.Poll(t, "the first commit everywhere", pause, func() (bool, string) {
		agents.mu.Lock()
		defer agents.mu.Unlock()
		return len(agents.had) == clusters, ""
	})
	h.apply(t, &fleetv1.Document{Object: &fleetv1.Document_RolloutPolicy{RolloutPolicy: &fleetv1.RolloutPolicy{
		Metadata: &typev1.Metadata{Name: "waves"},
		Spec: &fleetv1.RolloutPolicySpec{
			Services: []string{"*-app"}, MaxUnavailable: "1",
			Waves: []*fleetv1.RolloutWave{{Name: "canary", Clusters: []string{clusterName(0)}, Soak: durationpb.New(time.Second)}},
		},
	}}})
	status := func(at *process) *fleetv1.RolloutPolicyStatus {
		res, err := fleetcalls.Get[*fleetv1.RolloutPolicy](t.Context(), h.admin(t, slices.Index(h.distributors, at)), "waves")
		if err != nil {
			return nil
		}
		return res.GetStatus()
	}
	await.Poll(t, "the policy to take the services over", pause, func() (bool, string) {
		return status(first).GetTakenOver() == clusters, ""
	})
	arrive := func(at *process, n int) {
		t.Helper()
		agents.allow(n - agents.healthy())
		await.Poll(t, "members to arrive", pause, func() (bool, string) {
			return status(at).GetLatest().GetArrived() == int32(n), status(at).GetLatest().String()
		})
	}

	if termOf(t, second) > termOf(t, first) {
		first, second = second, first
	}
	term := termOf(t, first)
	h.commit(t, h.repos[0])
	arrive(first, 2)
	first.signal(t, syscall.SIGSTOP)
	agents.moveTo(ctx, slices.Index(h.distributors, second))
	term = awaitTerm(t, second, term)
	arrive(second, 4)
	first.signal(t, syscall.SIGCONT)
	await.Poll(t, "the first to find that it is deposed", pause, func() (bool, string) {
		log, err := os.ReadFile(first.log)
		return err == nil && strings.Contains(string(log), "another replica drives the rollouts now"), ""
	})
	agents.moveTo(ctx, slices.Index(h.distributors, first))
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		second.kill(t) // which costs another half a minute of silence
	} else {
		second.stop(t)
	}
	awaitTerm(t, first, term)
	arrive(first, clusters)

	await.Poll(t, "the rollout to end", pause, func() (bool, string) {
		return status(first).GetLatest().GetState() == "completed", status(first).GetLatest().GetState()
	})
	replay, err := h.rollouts(t, first).ReplayRollout(t.Context(), &fleetv1.ReplayRolloutRequest{Name: "waves"})
	if err != nil || replay.GetDifference() != "" || status(first).GetLatest().GetNumber() != 1 {
		t.Errorf("replay of rollout %d: got %v, %v", status(first).GetLatest().GetNumber(), replay, err)
	}
	cancel()
	working.Wait()
	for cluster, had := range agents.had {
		if len(had) != 2 || had[1] != agents.had[clusterName(0)][1] {
			t.Errorf("%s was given %v, want the first content, and then the second", cluster, had)
		}
	}
}
