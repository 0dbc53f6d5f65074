// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
)

// rollouts is a RolloutService whose policies have one rollout each, which waits for an approval.
type rollouts struct {
	fleetv1connect.UnimplementedRolloutServiceHandler
	hub *Hub
}

// rollout returns the rollout of a policy.
func (r rollouts) rollout(name string) (*fleetv1.Rollout, error) {
	_, err := r.hub.get("rolloutpolicy", name)
	return &fleetv1.Rollout{
		Id: "RUN", Policy: name, Number: 2, State: "running", Wave: "canary", WaitsFor: "wave \"canary\" waits for 1 more to approve", WaitsOn: "person", Total: 2, Arrived: 1,
		MaxUnavailable: 1, Contents: []*fleetv1.RolloutContent{{Repository: "demo", Commit: "0123456789abcdef"}}, Changes: []string{"content", "source ref v1 -> v2"}, Authors: []string{"ada"},
		Waves: []*fleetv1.RolloutWaveStatus{{Name: "canary", Total: 1, Arrived: 1}, {Name: "rest", Total: 1}},
	}, err
}

// GetRollout implements RolloutServiceHandler, one member a page.
func (r rollouts) GetRollout(_ context.Context, request *fleetv1.GetRolloutRequest) (*fleetv1.GetRolloutResponse, error) {
	rollout, err := r.rollout(request.GetName())
	members, next := paged([]*fleetv1.RolloutMember{
		{Service: "shop@eu-lab", Wave: "canary", Stage: "arrived"},
		{Service: "shop@berlin", Wave: "rest", Stage: "waiting", Why: "wave \"rest\" has not begun; the current one is \"canary\""},
	}, request.GetPage())
	return &fleetv1.GetRolloutResponse{Rollout: rollout, Members: members, NextPageToken: next}, err
}

// ListRollouts implements RolloutServiceHandler.
func (r rollouts) ListRollouts(_ context.Context, request *fleetv1.ListRolloutsRequest) (*fleetv1.ListRolloutsResponse, error) {
	rollout, err := r.rollout(request.GetName())
	return &fleetv1.ListRolloutsResponse{Rollouts: []*fleetv1.Rollout{rollout}}, err
}

// ControlRollout implements RolloutServiceHandler.
func (r rollouts) ControlRollout(_ context.Context, request *fleetv1.ControlRolloutRequest) (*fleetv1.ControlRolloutResponse, error) {
	rollout, err := r.rollout(request.GetName())
	return &fleetv1.ControlRolloutResponse{Rollout: rollout}, err
}

// ApproveRollout implements RolloutServiceHandler.
func (r rollouts) ApproveRollout(_ context.Context, request *fleetv1.ApproveRolloutRequest) (*fleetv1.ApproveRolloutResponse, error) {
	rollout, err := r.rollout(request.GetName())
	return &fleetv1.ApproveRolloutResponse{Rollout: rollout}, err
}

// ReplayRollout implements RolloutServiceHandler.
func (r rollouts) ReplayRollout(_ context.Context, request *fleetv1.ReplayRolloutRequest) (*fleetv1.ReplayRolloutResponse, error) {
	_, err := r.rollout(request.GetName())
	return &fleetv1.ReplayRolloutResponse{Events: 12, Decisions: 3}, err
}
