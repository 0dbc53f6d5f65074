// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// fetchHub answers one plan.
type fetchHub struct {
	planHub
	plan *distributorv1.Plan
}

func (h *fetchHub) GetPlan(context.Context, *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	return &distributorv1.GetPlanResponse{Plan: h.plan}, nil
}

// TestFetchedPlans keeps the bundles of a plan that was asked for once, and no plan: an answer without a plan is no empty
// one, which everything would agree with.
func TestFetchedPlans(t *testing.T) {
	t.Parallel()
	bundle := digest.FromBytes([]byte("a"))
	h, dir := &fetchHub{}, t.TempDir()
	_, handler := distributorv1connect.NewDistributorServiceHandler(h)
	server := rpctest.Start(handler)
	defer server.Close()
	client, logger := distributorv1connect.NewDistributorServiceClient(server.Client(), "http://hub"), slog.New(slog.DiscardHandler)
	me, err := control.OpenIdentity(control.IdentityParams{Dir: dir, JoinToken: "j", Hub: client, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	plans := control.NewPlans(control.PlanParams{Dir: dir, Hub: client, Identity: me, Logger: logger})
	if _, err := plans.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "without a plan") {
		t.Errorf("an answer without a plan: got %v, want an error", err)
	}
	h.plan = &distributorv1.Plan{Cluster: "mill", Version: "v1", Services: []*distributorv1.PlanService{
		{Name: "web", Uid: "u", Bundles: []*distributorv1.PlanBundle{{Digest: bundle.String()}}, Apply: &distributorv1.ApplySpec{}},
	}}
	got, err := plans.Fetch(t.Context())
	if err != nil || got.Version != "v1" || len(got.Services) != 1 || !plans.Pinned(bundle) {
		t.Errorf("got %+v, %v, want the plan, and its bundle kept", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := control.NewPlans(control.PlanParams{Dir: dir, Hub: client, Identity: me, Logger: logger}).Run(ctx, func(p plan.Plan) {
		t.Errorf("plan %s was kept", p.Version)
	}); err != nil {
		t.Error(err)
	}
}
