// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/testkit/await"
)

// wanderer is a cluster's agent that asks another replica each time, and checks that they never go
// back.
type wanderer struct {
	hub     *hub
	cluster string
	plans   []distributorv1connect.DistributorServiceClient
	http    []rpc.Client

	mu   sync.Mutex
	plan *distributorv1.Plan
	// latest is the number of the newest commit of each service that the agent has seen.
	latest map[string]int
	from   map[string]string
	faults []string
	// answers counts the answers by replica, and refusals by their code.
	answers  []int
	refusals map[connect.Code]int
}

func newWanderer(t *testing.T, h *hub, cluster string) *wanderer {
	t.Helper()
	w := &wanderer{
		hub: h, cluster: cluster, latest: map[string]int{}, from: map[string]string{},
		answers: make([]int, len(h.distributors)), refusals: map[connect.Code]int{},
	}
	token := h.enrol(t, cluster)
	for i := range h.distributors {
		w.plans = append(w.plans, h.agents(t, i, token))
		w.http = append(w.http, h.to(t, i, token))
	}
	return w
}

// wander asks until ctx is done.
func (w *wanderer) wander(ctx context.Context) {
	for ctx.Err() == nil {
		replica := rand.IntN(len(w.plans))
		call, cancel := context.WithTimeout(ctx, 2*time.Second)
		plan, err := w.ask(call, replica)
		cancel()
		w.take(replica, plan, err)
		rest(ctx, time.Duration(rand.Int64N(int64(60*time.Millisecond))))
	}
}

// ask polls, or opens a stream for its first message. A nil plan means that nothing changed.
func (w *wanderer) ask(ctx context.Context, replica int) (*distributorv1.Plan, error) {
	known := w.version()
	if rand.IntN(3) > 0 {
		answer, err := w.plans[replica].GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: known})
		return answer.GetPlan(), err
	}
	stream, err := w.plans[replica].WatchPlan(ctx, &distributorv1.WatchPlanRequest{KnownVersion: known})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	if stream.Receive() {
		return stream.Msg().GetPlan(), nil
	}
	return nil, stream.Err()
}

func (w *wanderer) version() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan.GetVersion()
}

// take checks an answer.
func (w *wanderer) take(replica int, plan *distributorv1.Plan, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.refusals[connect.CodeOf(err)]++
		return
	}
	w.answers[replica]++
	if plan == nil {
		return
	}
	there := map[string]bool{}
	for _, service := range plan.GetServices() {
		there[service.GetName()] = true
		w.compare(replica, service)
	}
	for name := range w.latest {
		if !there[name] {
			w.fault("%s vanished from the plan of distributor-%d", name, replica)
		}
	}
	w.plan = plan
}

// compare compares a service with its earlier states.
func (w *wanderer) compare(replica int, service *distributorv1.PlanService) {
	name := service.GetName()
	before, seen := w.latest[name]
	if len(service.GetBundles()) == 0 {
		if seen {
			w.fault("%s lost its bundles at distributor-%d", name, replica)
		}
		return
	}
	bundle := service.GetBundles()[0]
	number, known := w.hub.number(bundle.GetCommit())
	switch {
	case bundle.GetPath() != "app":
		number = 0 // it never changes, so it may name any commit
	case !known:
		return // the test has not recorded its own commit yet
	case seen && number < before:
		w.fault("%s went back from commit %d of %s to %d of distributor-%d", name, before, w.from[name], number, replica)
	}
	w.latest[name], w.from[name] = max(number, before), w.hub.distributors[replica].name
}

func (w *wanderer) fault(format string, args ...any) {
	w.faults = append(w.faults, w.cluster+": "+fmt.Sprintf(format, args...))
}

// breaches returns all breaches so far.
func (w *wanderer) breaches() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.faults...)
}

// right reports whether a replica's plan matches Git's current state.
func (w *wanderer) right(ctx context.Context, replica int) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := w.plans[replica].GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: "none that there is"})
	if err != nil || len(answer.GetPlan().GetServices()) != w.hub.services {
		return false
	}
	for _, service := range answer.GetPlan().GetServices() {
		if len(service.GetBundles()) == 0 {
			return false
		}
		bundle := service.GetBundles()[0]
		if bundle.GetPath() == "app" && bundle.GetCommit() != w.hub.head(bundle.GetRepository()) {
			return false
		}
	}
	return true
}

// wantBundles downloads the bundles of the agent's plan from every replica.
func (w *wanderer) wantBundles(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	services := w.plan.GetServices()
	w.mu.Unlock()
	for _, service := range services {
		for i, client := range w.http {
			await.Poll(t, "the bundle of "+service.GetName()+" at "+w.hub.distributors[i].name, pause, func() (bool, string) {
				return download(t, client, service.GetBundles()[0].GetDigest()), ""
			})
		}
	}
}

func download(t *testing.T, client rpc.Client, digest string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.BaseURL+"/v1/bundles/"+digest, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.HTTP.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	n, err := io.Copy(io.Discard, response.Body)
	return err == nil && n > 0 && response.StatusCode == http.StatusOK
}
