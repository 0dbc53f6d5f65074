// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

func deltaMessage(d *distributorv1.PlanDelta) *distributorv1.WatchPlanResponse {
	return &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Delta{Delta: d}}
}

func heartbeatMessage(version string) *distributorv1.WatchPlanResponse {
	return &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Heartbeat{
		Heartbeat: &distributorv1.Heartbeat{Version: version},
	}}
}

// TestDoubtAsksForTheWholePlan has streams with an invalid message after v1. The agent leaves the
// stream, although it would continue, and requests the whole plan on the next.
func TestDoubtAsksForTheWholePlan(t *testing.T) {
	unreadable := &distributorv1.Plan{Version: "v2", Services: []*distributorv1.PlanService{
		{Name: "a", Bundles: []*distributorv1.PlanBundle{{Digest: "no digest"}}},
	}}
	for name, message := range map[string]*distributorv1.WatchPlanResponse{
		"another version": deltaMessage(deltaOf(&distributorv1.Plan{Version: "v0"}, &distributorv1.Plan{Version: "v2"})),
		"no sum":          deltaMessage(&distributorv1.PlanDelta{FromVersion: "v1", ToVersion: "v2"}),
		"unreadable":      deltaMessage(deltaOf(&distributorv1.Plan{Version: "v1"}, unreadable)),
		"heartbeat":       heartbeatMessage("v2"),
	} {
		t.Run(name, func(t *testing.T) {
			h := &planHub{}
			var known []string
			h.watch = func(ctx context.Context, n int, version string, send func(*distributorv1.WatchPlanResponse) error) error {
				known = append(known, version)
				messages := []*distributorv1.WatchPlanResponse{planMessage("v1"), heartbeatMessage("v1"), heartbeatMessage(""), message}
				if n > 1 {
					messages = []*distributorv1.WatchPlanResponse{planMessage("v2"), heartbeatMessage("v2")}
				}
				for _, m := range messages {
					if err := send(m); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return ctx.Err()
			}
			withPlans(t, h, func(t *testing.T, versions func() []string) {
				pass(5 * time.Second)
				if got := fmt.Sprintf("%v %q %v", versions(), known, h.deltas); got != `[v1 v2] ["" "v1"] [true false]` {
					t.Errorf("plans, known versions, deltas taken: got %s, want [v1 v2], the second asked for as a whole", got)
				}
			})
		})
	}
}

// TestWrongHubIsNotHurried has a hub that always sends invalid messages: the agent continues to
// ask, with growing pauses.
func TestWrongHubIsNotHurried(t *testing.T) {
	h := &planHub{}
	h.watch = func(ctx context.Context, n int, _ string, send func(*distributorv1.WatchPlanResponse) error) error {
		if err := send(planMessage(fmt.Sprint("v", n))); err != nil {
			return err
		}
		if err := send(heartbeatMessage("another")); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	withPlans(t, h, func(t *testing.T, _ func() []string) {
		pass(time.Hour)
		if n := len(h.watches); n < 100 || n > 400 {
			t.Errorf("streams: got %d in an hour, want about one in 15 to 30 s", n)
		}
	})
}

// pollHub has no streams. Its polls answer with an invalid delta whenever they can.
type pollHub struct {
	planHub

	asked []*distributorv1.GetPlanRequest
}

func (h *pollHub) WatchPlan(context.Context, *distributorv1.WatchPlanRequest, *connect.ServerStream[distributorv1.WatchPlanResponse]) error {
	return connect.NewError(connect.CodeUnimplemented, nil)
}

func (h *pollHub) GetPlan(_ context.Context, r *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	h.asked = append(h.asked, r)
	if r.GetKnownVersion() != "" && r.GetAcceptDelta() {
		return &distributorv1.GetPlanResponse{Delta: &distributorv1.PlanDelta{FromVersion: r.GetKnownVersion(), ToVersion: "x"}}, nil
	}
	return &distributorv1.GetPlanResponse{Plan: &distributorv1.Plan{Cluster: "mill", Version: fmt.Sprint("v", len(h.asked))}}, nil
}

// TestDoubtWhilePolling requests the whole plan at once, and not at the next poll.
func TestDoubtWhilePolling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := &pollHub{}
		_, handler := distributorv1connect.NewDistributorServiceHandler(h)
		server := rpctest.Start(handler)
		defer server.Close()
		f := follow(t, server.Client(), dir)
		pass(6 * time.Minute)
		f.stop(t)
		var asked string
		for _, r := range h.asked {
			asked += fmt.Sprint(" ", r.GetKnownVersion(), " ", r.GetAcceptDelta())
		}
		if want := "  true v1 true v1 false v3 true v3 false"; !strings.HasPrefix(asked, want) || len(h.asked) > 9 {
			t.Errorf("got questions %q, want %q and so on, two each poll", asked, want)
		}
	})
}
