// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// askTimeout is how long an agent waits for an answer.
const askTimeout = time.Minute

// agent is one simulated agent with a connection of its own.
type agent struct {
	cluster string
	// token is for the distributor, tunnelToken for the tunnel.
	token, tunnelToken string

	http     *http.Client
	url      string
	service  distributorv1connect.DistributorServiceClient
	messages atomic.Int64
	// changes receives each plan after the first, with its time of arrival.
	changes chan change
	// plan is the last plan that awaitChange saw.
	plan *distributorv1.Plan
	// kept is the plan that the agent has from before, or nil.
	kept *distributorv1.Plan
}

type change struct {
	at   time.Time
	plan *distributorv1.Plan
}

// connect has every agent obtain a token and begin. It returns when all have the whole plan. Agents keep the
// plans that they had at the last connect, as real ones do on their disks.
func (h *hub) connect(b *testing.B, begin func(a *agent, ctx context.Context, watching *sync.WaitGroup) error) {
	b.Helper()
	before := h.agents
	h.agents = make([]*agent, *fleetClusters)
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	h.disconnect = func() {
		cancel()
		watching.Wait()
	}
	b.Cleanup(h.disconnect)
	var group errgroup.Group
	group.SetLimit(joining)
	for i := range h.agents {
		a, err := newAgent(clusterName(i), h.distributor.url)
		if err != nil {
			b.Fatal(err)
		}
		h.agents[i] = a
		if before != nil {
			a.kept, a.token, a.tunnelToken = before[i].plan, before[i].token, before[i].tunnelToken
		}
		group.Go(func() error {
			if err := begin(a, ctx, &watching); err != nil {
				return fmt.Errorf("%s: %w", a.cluster, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// newAgent returns an agent with the client of real ones.
func newAgent(cluster, url string) (*agent, error) {
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: url, Telemetry: telemetry.Noop(), IsOutside: true})
	if err != nil {
		return nil, err
	}
	return &agent{
		cluster: cluster, http: client.HTTP, url: url, changes: make(chan change, 16),
		service: distributorv1connect.NewDistributorServiceClient(client.HTTP, client.BaseURL, client.Options...),
	}, nil
}

// start watches the agent's plan and reports once that all of it is healthy, like an agent that starts.
func (a *agent) start(ctx context.Context, watching *sync.WaitGroup) error {
	if err := a.watchPlan(ctx, watching); err != nil {
		return err
	}
	err := patiently(ctx, a.report)
	a.plan = shortened(a.plan)
	return err
}

// watchPlan watches the agent's plan, like an agent whose hub starts again. That one still has its token.
func (a *agent) watchPlan(ctx context.Context, watching *sync.WaitGroup) error {
	if a.token == "" {
		if err := a.obtainToken(ctx); err != nil {
			return err
		}
	}
	return patiently(ctx, func(context.Context) error {
		first := make(chan error, 1)
		watching.Go(func() { a.watch(ctx, first) })
		return <-first
	})
}

// shortened returns a plan with its first service alone, so that the agents of a large fleet have room
// in one process.
func shortened(p *distributorv1.Plan) *distributorv1.Plan {
	return &distributorv1.Plan{Version: p.GetVersion(), Services: p.GetServices()[:1]}
}

// patiently repeats a call for as long as the hub asks the agent to come back later, as agents do.
func patiently(ctx context.Context, call func(context.Context) error) error {
	return backoff.Retry(ctx, backoff.Default(), func(ctx context.Context) error {
		err := call(ctx)
		if _, later := rpcerr.RetryDelay(err); later {
			return rpcerr.Paced(err)
		}
		return backoff.Permanent(err)
	})
}

func (a *agent) obtainToken(ctx context.Context) error {
	return patiently(ctx, func(ctx context.Context) error {
		assertion, err := identity.SignAssertion(keyOf(a.cluster), a.cluster)
		if err != nil {
			return err
		}
		answer, err := a.service.RefreshToken(ctx, &distributorv1.RefreshTokenRequest{Assertion: assertion})
		a.token, a.tunnelToken = answer.GetAccessToken(), answer.GetTunnelToken()
		return err
	})
}

// as adds the token below Connect, so that streams have it too.
func (a *agent) as(ctx context.Context) context.Context {
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set("Authorization", "Bearer "+a.token)
	return ctx
}

// watch notifies first once there is a plan with content.
func (a *agent) watch(ctx context.Context, first chan<- error) {
	stream, err := a.service.WatchPlan(a.as(ctx), &distributorv1.WatchPlanRequest{KnownVersion: a.kept.GetVersion(), AcceptDelta: true})
	if err != nil {
		first <- err
		return
	}
	defer a.http.CloseIdleConnections()
	defer stream.Close()
	for stream.Receive() {
		a.messages.Add(1)
		plan := stream.Msg().GetPlan()
		if delta := stream.Msg().GetDelta(); len(delta.GetServices()) > 0 {
			plan = &distributorv1.Plan{Version: delta.GetToVersion(), Services: delta.GetServices()}
		}
		switch {
		case plan == nil && a.plan == nil && a.kept != nil: // a heartbeat first: what the agent has is current
			a.plan = a.kept
			close(first)
		case plan == nil:
		case a.plan == nil && complete(plan):
			a.plan = plan
			close(first)
		case a.plan != nil:
			a.changes <- change{at: time.Now(), plan: shortened(plan)}
		}
	}
	if a.plan == nil {
		first <- fmt.Errorf("the stream ended: %w", cmp.Or(stream.Err(), io.ErrUnexpectedEOF))
		return
	}
	close(a.changes)
}

// ask asks for the plan that the agent has.
func (a *agent) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := a.service.GetPlan(a.as(ctx), &distributorv1.GetPlanRequest{KnownVersion: a.plan.GetVersion()})
	return err
}

// complete reports whether every source in the plan is resolved, which takes a moment after the
// hub's start.
func complete(plan *distributorv1.Plan) bool {
	for _, service := range plan.GetServices() {
		if len(service.GetBundles()) == 0 {
			return false
		}
	}
	return len(plan.GetServices()) == servicesPerCluster()
}

// report reports that everything is healthy.
func (a *agent) report(ctx context.Context) error {
	request := &distributorv1.ReportStatusRequest{
		PlanVersion: a.plan.GetVersion(), Full: true, Instance: "bench", Sequence: uint64(time.Now().UnixMicro()),
		Cluster: &distributorv1.ClusterReport{AgentVersion: "bench", KubernetesVersion: "v1.36.3", Nodes: 5},
	}
	for _, service := range a.plan.GetServices() {
		request.Services = append(request.Services, &distributorv1.ServiceReport{
			Service: service.GetName(), ServiceUid: service.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY,
			ObservedSpecDigest: service.GetSpecDigest(), AppliedDigests: []string{service.GetBundles()[0].GetDigest()},
			AppliedCommits: []string{service.GetBundles()[0].GetCommit()}, Counts: &typev1.ObjectCounts{Total: 50, Healthy: 50},
		})
	}
	_, err := a.service.ReportStatus(a.as(ctx), request)
	return err
}

// forgetChanges discards earlier plans.
func (a *agent) forgetChanges() {
	for {
		select {
		case earlier, open := <-a.changes:
			if !open {
				return
			}
			a.plan = earlier.plan
		default:
			return
		}
	}
}

// awaitChange returns how long after begun the agent received another plan.
func (a *agent) awaitChange(b *testing.B, begun time.Time) time.Duration {
	b.Helper()
	select {
	case next, open := <-a.changes:
		if !open {
			b.Fatalf("%s: the stream ended", a.cluster)
		}
		a.plan = next.plan
		return next.at.Sub(begun)
	case <-time.After(time.Minute):
		b.Fatalf("%s did not hear of the commit", a.cluster)
		return 0
	}
}

// messages returns how many messages all agents have received.
func (h *hub) messages() int64 {
	var n int64
	for _, a := range h.agents {
		n += a.messages.Load()
	}
	return n
}

// download has every agent fetch the bundle of the changed folder, and returns its size on the
// wire.
func (h *hub) download(b *testing.B) int64 {
	b.Helper()
	var size atomic.Int64
	var group errgroup.Group
	group.SetLimit(joining)
	for _, a := range h.agents {
		group.Go(func() error {
			n, err := a.download(b.Context())
			size.Store(n)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return size.Load()
}

func (a *agent) download(ctx context.Context) (int64, error) {
	digest := a.plan.GetServices()[0].GetBundles()[0].GetDigest()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/v1/bundles/"+digest, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Accept-Encoding", "zstd")
	response, err := a.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("download bundle: %s", response.Status)
	}
	return io.Copy(io.Discard, response.Body)
}
