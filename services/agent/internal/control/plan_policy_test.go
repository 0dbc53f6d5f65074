// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// delivered returns the delivered form of a plan from the hub, and then, after a restart, of the
// stored one.
func delivered(t *testing.T, message *distributorv1.Plan) (plans []plan.Plan) {
	t.Helper()
	dir := t.TempDir()
	for range 2 {
		synctest.Test(t, func(t *testing.T) { plans = append(plans, first(t, dir, message)) })
	}
	return plans
}

// first returns the first delivered plan. The hub sends the message to an agent without a plan.
func first(t *testing.T, dir string, message *distributorv1.Plan) plan.Plan {
	t.Helper()
	h := &planHub{watch: func(ctx context.Context, _ int, known string, send func(*distributorv1.WatchPlanResponse) error) error {
		if known == "" {
			if err := send(&distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Plan{Plan: message}}); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	_, handler := distributorv1connect.NewDistributorServiceHandler(h)
	server := rpctest.Start(handler)
	defer server.Close()
	client, logger := distributorv1connect.NewDistributorServiceClient(server.Client(), "http://hub"), slog.New(slog.DiscardHandler)
	me, err := control.OpenIdentity(control.IdentityParams{Dir: dir, JoinToken: "j", Hub: client, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan plan.Plan, 1)
	ctx, cancel := context.WithCancel(t.Context())
	plans := control.NewPlans(control.PlanParams{Dir: dir, Hub: client, Identity: me, Logger: logger})
	done := make(chan error)
	go func() { done <- plans.Run(ctx, func(p plan.Plan) { got <- p }) }()
	plan := <-got
	cancel()
	if err := <-done; err != nil {
		t.Errorf("plans ended: %v", err)
	}
	return plan
}

func TestPolicyAndSettingsReachTheEngine(t *testing.T) {
	t.Parallel()
	plans := delivered(t, &distributorv1.Plan{
		Cluster: "mill", Version: "v1", Settings: &typev1.AgentSettings{LockDown: true, Workers: 3},
		Services: []*distributorv1.PlanService{
			{Name: "plain", Apply: &distributorv1.ApplySpec{}},
			{Name: "careful", Apply: &distributorv1.ApplySpec{DryRun: true, Policy: &typev1.SyncPolicy{Drift: typev1.DriftMode_DRIFT_MODE_REPORT, Recreate: true}}},
		},
	})
	no := new(false) // a plan leaves nothing to defaults
	specs := []plan.Spec{
		{CreateNamespace: no, Prune: no},
		{CreateNamespace: no, Prune: no, DryRun: true, Policy: syncpolicy.Policy{Drift: syncpolicy.DriftReport, Recreate: true}},
	}
	for _, plan := range plans {
		if want := (syncpolicy.AgentSettings{LockDown: true, Workers: 3}); !plan.Settings.Equal(want) {
			t.Errorf("settings: got %+v, want %+v", plan.Settings, want)
		}
		for i, service := range plan.Services {
			if diff := cmp.Diff(specs[i], service.Spec); diff != "" || service.Refused != nil {
				t.Errorf("%s: refused %v, spec (-want +got):\n%s", service.Name, service.Refused, diff)
			}
		}
	}
}

// TestNewerPolicyIsRefused has one service with a policy of a newer hub. Only that service is left
// unchanged, and reports why.
func TestNewerPolicyIsRefused(t *testing.T) {
	t.Parallel()
	newer := &typev1.AgentSettings{Workers: 2}
	newer.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01})
	plans := delivered(t, &distributorv1.Plan{
		Cluster: "mill", Version: "v1", Settings: newer,
		Services: []*distributorv1.PlanService{
			{Name: "newer", Apply: &distributorv1.ApplySpec{Policy: &typev1.SyncPolicy{Adoption: 17}}},
			{Name: "plain", Apply: &distributorv1.ApplySpec{}},
		},
	})
	for _, plan := range plans {
		refused := plan.Services[0].Refused
		if refused == nil || refused.Reason != reason.Unimplemented || !strings.Contains(refused.Message, "spec.policy.adoption") {
			t.Errorf("got %+v, want a problem that names the field", refused)
		}
		if plan.Services[1].Refused != nil || plan.Settings.Workers != 2 {
			t.Errorf("got %+v, want everything else followed", plan)
		}
	}
}
