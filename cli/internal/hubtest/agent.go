// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"crypto/ed25519"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// Agent is the double of a cluster's agent. It watches its plan, and reports that it runs each service
// that has content, healthy unless the agent was set up otherwise. It applies nothing.
type Agent struct {
	hub     distributorv1connect.DistributorServiceClient
	cluster string

	mu       sync.Mutex
	sequence uint64
	// failing are the commits with which a service is degraded, and guarded the digest of objects that the guard
	// keeps until a person agrees; empty: it keeps none.
	failing []string
	guarded string
}

// Agent returns the agent of a cluster, which exists. The first call enrols it, and it works until the end
// of the test.
func (h *Hub) Agent(t testing.TB, cluster string) *Agent {
	t.Helper()
	if known := h.agents[cluster]; known != nil {
		return known
	}
	a := &Agent{hub: h.enrol(t, cluster), cluster: cluster}
	h.agents[cluster] = a
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { a.work(ctx) })
	t.Cleanup(func() {
		cancel()
		working.Wait()
	})
	return a
}

// enrol returns the hub as the agent of a cluster calls it.
func (h *Hub) enrol(t testing.TB, cluster string) distributorv1connect.DistributorServiceClient {
	t.Helper()
	person, err := client.New(client.Params{Server: h.URL, Token: Token})
	if err != nil {
		t.Fatal(err)
	}
	join, err := person.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := h.callAs(t, "")
	enrolled, err := anonymous.Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: public, AgentVersion: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	assertion, err := identity.SignAssertion(key, enrolled.GetCluster())
	if err != nil {
		t.Fatal(err)
	}
	token, err := anonymous.RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		t.Fatal(err)
	}
	return h.callAs(t, token.GetAccessToken())
}

func (h *Hub) callAs(t testing.TB, token string) distributorv1connect.DistributorServiceClient {
	t.Helper()
	params := rpc.ClientParams{BaseURL: h.URL, Telemetry: telemetry.Noop()}
	if token != "" {
		params.Tokens = identity.StaticToken(token)
	}
	c, err := rpc.NewClient(params)
	if err != nil {
		t.Fatal(err)
	}
	return distributorv1connect.NewDistributorServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// Fail has services be degraded with the content of a commit.
func (a *Agent) Fail(t testing.TB, commit string) {
	t.Helper()
	a.set(t, func() { a.failing = append(a.failing, commit) })
}

// Guard has the guard of each service keep an object, until a person agrees to its digest, which is of this
// cluster alone.
func (a *Agent) Guard(t testing.TB) {
	t.Helper()
	a.set(t, func() { a.guarded = digest.FromBytes([]byte(a.cluster)).String() })
}

// set changes what the agent reports, and reports it.
func (a *Agent) set(t testing.TB, change func()) {
	t.Helper()
	a.mu.Lock()
	change()
	a.mu.Unlock()
	if err := a.report(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// retryEvery is the pause before a broken stream is opened again.
const retryEvery = 50 * time.Millisecond

// work reports at each change of the plan until ctx is done.
func (a *Agent) work(ctx context.Context) {
	for {
		stream, err := a.hub.WatchPlan(ctx, &distributorv1.WatchPlanRequest{})
		for err == nil && stream.Receive() {
			err = a.report(ctx)
		}
		if stream != nil {
			_ = stream.Close() // it is opened again
		}
		if err := backoff.Wait(ctx, retryEvery); err != nil {
			return
		}
	}
}

// report reports on all services of the current plan, until the hub has taken it.
func (a *Agent) report(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		plan, err := a.hub.GetPlan(ctx, &distributorv1.GetPlanRequest{})
		if err != nil {
			return err
		}
		a.sequence++
		report := &distributorv1.ReportStatusRequest{
			PlanVersion: plan.GetPlan().GetVersion(), Instance: "process", Sequence: a.sequence, Full: true,
			Cluster: &distributorv1.ClusterReport{KubernetesVersion: "v1.36.3"},
		}
		for _, entry := range plan.GetPlan().GetServices() {
			if len(entry.GetBundles()) > 0 {
				report.Services = append(report.Services, a.runLocked(entry))
			}
		}
		res, err := a.hub.ReportStatus(ctx, report)
		if err != nil || !res.GetWantFull() {
			return err
		}
	}
}

// planned is when the hub planned everything, according to reports.
var planned = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// runLocked returns what becomes of an entry.
func (a *Agent) runLocked(entry *distributorv1.PlanService) *distributorv1.ServiceReport {
	var digests, commits []string
	for _, bundle := range entry.GetBundles() {
		digests, commits = append(digests, bundle.GetDigest()), append(commits, bundle.GetCommit())
	}
	report := &distributorv1.ServiceReport{
		Service: entry.GetName(), ServiceUid: entry.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, ObservedSpecDigest: entry.GetSpecDigest(),
		AppliedDigests: digests, AppliedCommits: commits, ObservedDigests: digests, ObservedCommits: commits,
		AppliedConfigDigest: entry.GetConfigDigest(), ObservedConfigDigest: entry.GetConfigDigest(),
		PlannedAt: timestamppb.New(planned), ApplyDuration: durationpb.New(2 * time.Second),
		Timings: &distributorv1.Timings{ArrivedAt: timestamppb.New(planned.Add(time.Second)), Healthy: durationpb.New(75 * time.Second)},
	}
	switch {
	case slices.ContainsFunc(commits, func(commit string) bool { return slices.Contains(a.failing, commit) }):
		report.Phase, report.Timings.Healthy = typev1.ServicePhase_SERVICE_PHASE_DEGRADED, nil
		report.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_HEALTH_TIMEOUT, Message: "Deployment web has no replica"}
	case a.guarded != "" && entry.GetApply().GetPruneConfirmation() != a.guarded:
		report.Phase = typev1.ServicePhase_SERVICE_PHASE_FAILED
		report.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_PRUNE_GUARDED, Message: "pruning would take 1 of 1 objects away"}
		report.GuardedSpecDigest = a.guarded
		report.Guarded = []*typev1.ObjectRef{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: entry.GetApply().GetNamespace(), Name: "web"}}
	}
	return report
}
