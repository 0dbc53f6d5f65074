// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// planHub serves plans as its hooks decide.
type planHub struct {
	distributorv1connect.UnimplementedDistributorServiceHandler

	watch func(ctx context.Context, n int, known string, send func(*distributorv1.WatchPlanResponse) error) error

	// away has polls fail.
	away atomic.Bool

	mu      sync.Mutex
	watches []time.Time
	deltas  []bool // whether each stream's caller takes them
	polls   []time.Time
	answers []time.Time // when the agent noticed that the hub answers
	left    int         // how often the agent left its connection
}

func (h *planHub) Enroll(context.Context, *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	return &distributorv1.EnrollResponse{Cluster: "mill"}, nil
}

func (h *planHub) RefreshToken(context.Context, *distributorv1.RefreshTokenRequest) (*distributorv1.RefreshTokenResponse, error) {
	return &distributorv1.RefreshTokenResponse{AccessToken: "t", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))}, nil
}

func (h *planHub) GetPlan(context.Context, *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away.Load() {
		return nil, connect.NewError(connect.CodeUnavailable, nil)
	}
	h.polls = append(h.polls, time.Now())
	return &distributorv1.GetPlanResponse{
		Plan:         &distributorv1.Plan{Cluster: "mill", Version: fmt.Sprintf("poll-%d", len(h.polls))},
		PollInterval: durationpb.New(2 * time.Minute),
	}, nil
}

func (h *planHub) WatchPlan(
	ctx context.Context, r *distributorv1.WatchPlanRequest, stream *connect.ServerStream[distributorv1.WatchPlanResponse],
) error {
	h.mu.Lock()
	h.watches = append(h.watches, time.Now())
	h.deltas = append(h.deltas, r.GetAcceptDelta())
	n := len(h.watches)
	h.mu.Unlock()
	return h.watch(ctx, n, r.GetKnownVersion(), stream.Send)
}

func planMessage(version string) *distributorv1.WatchPlanResponse {
	return &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Plan{
		Plan: &distributorv1.Plan{Cluster: "mill", Version: version},
	}}
}

// withPlans runs Plans against the hub in virtual time, and returns the delivered versions.
func withPlans(t *testing.T, h *planHub, test func(t *testing.T, versions func() []string)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		_, handler := distributorv1connect.NewDistributorServiceHandler(h)
		server := rpctest.Start(handler)
		defer server.Close()
		client := distributorv1connect.NewDistributorServiceClient(server.Client(), "http://hub")
		logger := slog.New(slog.DiscardHandler)
		me, err := control.OpenIdentity(control.IdentityParams{Dir: dir, JoinToken: "j", Hub: client, Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var versions []string
		plans := control.NewPlans(control.PlanParams{Dir: dir, Hub: client, Identity: me, Logger: logger, Answers: func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.answers = append(h.answers, time.Now())
		}, Leave: func() { h.left++ }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- plans.Run(ctx, func(p plan.Plan) {
				mu.Lock()
				defer mu.Unlock()
				versions = append(versions, p.Version)
			})
		}()
		test(t, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return versions
		})
		cancel()
		if err := <-done; err != nil {
			t.Errorf("plans ended: %v", err)
		}
	})
}

// TestSilentStream has a stream that falls silent. The agent ends it after two heartbeats, and
// sends its version on the next.
func TestSilentStream(t *testing.T) {
	h := &planHub{}
	var known []string
	h.watch = func(ctx context.Context, n int, version string, send func(*distributorv1.WatchPlanResponse) error) error {
		known = append(known, version)
		if err := send(planMessage(fmt.Sprint("v", n))); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	withPlans(t, h, func(t *testing.T, versions func() []string) {
		pass(30 * time.Second)
		if got := fmt.Sprint(versions()); got != "[v1]" {
			t.Errorf("plans: got %s, want [v1]", got)
		}
		pass(30 * time.Second)
		if got := fmt.Sprint(versions(), known); got != "[v1 v2] [ v1]" {
			t.Errorf("plans and known versions: got %s, want [v1 v2] [ v1]", got)
		}
		if between := h.watches[1].Sub(h.watches[0]); between < 45*time.Second || between > 46*time.Second {
			t.Errorf("second stream: got it after %v, want 45 s and at most half a second", between)
		}
		if len(h.polls) != 0 {
			t.Errorf("polls: got %d, want none while streams bring something", len(h.polls))
		}
	})
}

// TestDrain has a server that asks the agent to reconnect later.
func TestDrain(t *testing.T) {
	h := &planHub{}
	h.watch = func(_ context.Context, _ int, _ string, send func(*distributorv1.WatchPlanResponse) error) error {
		return send(&distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Drain{
			Drain: &distributorv1.Drain{ReconnectAfter: durationpb.New(time.Minute)},
		}})
	}
	withPlans(t, h, func(t *testing.T, _ func() []string) {
		pass(10 * time.Minute)
		for i := range len(h.watches) - 1 {
			if between := h.watches[i+1].Sub(h.watches[i]); between < 45*time.Second || between > 75*time.Second {
				t.Errorf("stream %d: got it after %v, want a minute ±25 %%", i+1, between)
			}
		}
		if h.left != len(h.watches)-1 {
			t.Errorf("the agent left its connection %d times, want so before each of %d further streams", h.left, len(h.watches)-1)
		}
	})
}

// TestPolling has no streams at all. The agent polls at the hub's interval, ±25 %.
func TestPolling(t *testing.T) {
	h := &planHub{}
	h.watch = func(context.Context, int, string, func(*distributorv1.WatchPlanResponse) error) error {
		return connect.NewError(connect.CodeUnimplemented, nil)
	}
	withPlans(t, h, func(t *testing.T, versions func() []string) {
		pass(time.Hour)
		if n := len(h.polls); n < 24 || n > 40 {
			t.Errorf("polls: got %d in an hour, want about 30", n)
		}
		for i := range len(h.polls) - 1 {
			if between := h.polls[i+1].Sub(h.polls[i]); between < 90*time.Second || between > 150*time.Second {
				t.Errorf("poll %d: got it after %v, want 2 min ±25 %%", i+1, between)
			}
		}
		if len(versions()) != len(h.polls) {
			t.Errorf("plans: got %d, want one each poll, %d", len(versions()), len(h.polls))
		}
		if !slices.Equal(h.answers, h.polls) {
			t.Errorf("answers of the hub: noticed at %v, want each poll, at %v", h.answers, h.polls)
		}
	})
}

// TestFirstMessageOfAStreamIsAnAnswer has a hub that is away for a while, and whose streams then bring several messages.
func TestFirstMessageOfAStreamIsAnAnswer(t *testing.T) {
	h := &planHub{}
	h.away.Store(true)
	h.watch = func(ctx context.Context, n int, _ string, send func(*distributorv1.WatchPlanResponse) error) error {
		if h.away.Load() {
			return connect.NewError(connect.CodeUnavailable, nil)
		}
		for i := range 3 {
			if err := send(planMessage(fmt.Sprint("v", n, "-", i))); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
	withPlans(t, h, func(t *testing.T, _ func() []string) {
		pass(10 * time.Minute)
		if len(h.answers) != 0 {
			t.Errorf("answers of a hub that is away: noticed at %v", h.answers)
		}
		h.away.Store(false)
		pass(40 * time.Second) // a pause, and no end of a stream that is silent
		if len(h.answers) != 1 || !h.answers[0].Equal(h.watches[len(h.watches)-1]) {
			t.Errorf("answers of the hub: noticed at %v, want once, as the stream begins at %v", h.answers, h.watches[len(h.watches)-1])
		}
	})
}
