// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/renderstep/renderstepwire"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
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
	newerStep := &typev1.RenderStep{}
	for _, m := range []proto.Message{newer, newerStep} {
		m.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01})
	}
	plans := delivered(t, &distributorv1.Plan{
		Cluster: "mill", Version: "v1", Settings: newer,
		Services: []*distributorv1.PlanService{
			{Name: "newer", Apply: &distributorv1.ApplySpec{Policy: &typev1.SyncPolicy{Adoption: 17}}},
			{Name: "step", Apply: &distributorv1.ApplySpec{Render: []*typev1.RenderStep{{}, newerStep}}},
			{Name: "word", Apply: &distributorv1.ApplySpec{Policy: &typev1.SyncPolicy{Requires: []string{"render:steps", "render:ytt"}}}},
			{Name: "plain", Apply: &distributorv1.ApplySpec{Policy: &typev1.SyncPolicy{Requires: renderstep.WordsKnown()}}},
		},
	})
	for _, plan := range plans {
		for i, field := range []string{"spec.policy.adoption: ", "spec.render[1]: ", `spec.policy.requires[1]: asks for "render:ytt"`} {
			refused := plan.Services[i].Refused
			if refused == nil || refused.Reason != reason.Unimplemented || !strings.Contains(refused.Message, field) {
				t.Errorf("got %+v, want a problem that names %s", refused, field)
			}
		}
		if plan.Services[3].Refused != nil || plan.Settings.Workers != 2 {
			t.Errorf("got %+v, want everything else followed", plan)
		}
	}
}

// TestStepsMountsAndFactsArrive follows them from the wire to the values, also through the stored
// plan.
func TestStepsMountsAndFactsArrive(t *testing.T) {
	t.Parallel()
	content := digest.FromBytes([]byte("x"))
	facts := &typev1.ClusterFacts{Labels: map[string]string{"region": "eu"}, Annotations: map[string]string{"team": "shop"}}
	steps := []renderstep.Step{
		{Path: "chart", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Values: map[string]any{"a": []any{1.0}}}},
		{Renderer: renderstep.Kustomize, FromPrevious: true},
	}
	held := time.UnixMicro(1_800_000_000_000_001).UTC()
	plans := delivered(t, &distributorv1.Plan{Cluster: "mill", Version: "v1", Facts: facts, RemovalsHeldSince: timestamppb.New(held), Services: []*distributorv1.PlanService{{
		Name: "shop", Bundles: []*distributorv1.PlanBundle{{Digest: content.String(), Mount: "chart/web"}},
		Apply: &distributorv1.ApplySpec{
			Render: renderstepwire.Messages(steps), Policy: &typev1.SyncPolicy{Requires: renderstep.Words(renderstep.Helm)},
		},
	}}})
	for _, got := range plans {
		if !got.RemovalsHeldSince.Equal(held) {
			t.Errorf("removals are held since %v, want %v", got.RemovalsHeldSince, held)
		}
		if diff := cmp.Diff(plan.Facts{Name: "mill", Labels: facts.GetLabels(), Annotations: facts.GetAnnotations()}, got.Facts); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
		service := got.Services[0]
		if diff := cmp.Diff(steps, service.Spec.Render); diff != "" || service.Refused != nil || !service.Spec.Policy.IsZero() {
			t.Errorf("refused %v, policy %+v, steps (-want +got):\n%s", service.Refused, service.Spec.Policy, diff)
		}
		if want := (plan.Bundle{Digest: content, Mount: "chart/web"}); service.Bundles[0] != want {
			t.Errorf("got %+v, want %+v", service.Bundles[0], want)
		}
	}
}
