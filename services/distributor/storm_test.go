// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// wantToldWhen fails unless the error means that the caller has to wait, and for how long.
func wantToldWhen(t *testing.T, err error) {
	t.Helper()
	wantReason(t, err, "RATE_LIMITED")
	if delay, ok := rpcerr.RetryDelay(err); !ok || delay <= 0 || connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("got %v and delay %s, want RESOURCE_EXHAUSTED and when to come again", err, delay)
	}
}

// open opens one more stream of a cluster's plan, and returns the error with which it is refused.
func (h *hub) open(t *testing.T, ctx context.Context, token string) error {
	t.Helper()
	stream, err := h.agents(t, token).WatchPlan(ctx, &distributorv1.WatchPlanRequest{})
	if err != nil {
		return err
	}
	if stream.Receive() {
		return nil
	}
	defer func() { _ = stream.Close() }()
	return stream.Err()
}

// TestF20StormsAreShaped has more agents come at once than the replica lets in. An agent without a
// stream can poll anyway.
func TestF20StormsAreShaped(t *testing.T) {
	t.Parallel()
	const rate, burst = 1, 5
	h := startHub(t, func(c *distributor.Config) { c.AgentRate = rate })
	h.apply(t, clusterDocument("one"))
	agent := h.enrol(t, "one")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var refused error
	for i := 0; refused == nil && i < 100*burst; i++ {
		streaming, leave := context.WithCancel(ctx)
		refused = h.open(t, streaming, agent.token)
		leave()
	}
	wantToldWhen(t, refused)
	for range 2 * burst {
		if _, err := h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{}); err != nil {
			t.Errorf("got %v, want polls to go on", err)
		}
	}

	refused = nil
	for i := 0; refused == nil && i < 100*burst; i++ {
		assertion, err := identity.SignAssertion(agent.key, agent.cluster)
		if err != nil {
			t.Fatal(err)
		}
		_, refused = h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	}
	wantToldWhen(t, refused)
	_, err := h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: "of a stranger"})
	wantReason(t, err, "CLUSTER_KEY_REJECTED")

	refused = nil
	for i := 0; refused == nil && i < 100*burst; i++ {
		join, err := h.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
		if err != nil {
			t.Fatal(err)
		}
		_, refused = h.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: make([]byte, 32)})
	}
	wantToldWhen(t, refused)
}

// TestOneClusterTakesNoOthersStreams has an agent open streams without end.
func TestOneClusterTakesNoOthersStreams(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"), clusterDocument("two"))
	one, two := h.enrol(t, "one"), h.enrol(t, "two")
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	held, refusals := 0, 0
	for range 40 {
		err := h.open(t, ctx, one.token)
		if err == nil {
			held++
			continue
		}
		refusals++
		wantToldWhen(t, err)
	}
	if held != 16 || refusals != 24 {
		t.Errorf("got %d streams and %d refusals, want 16 of 40", held, refusals)
	}
	if err := h.open(t, ctx, two.token); err != nil {
		t.Errorf("got %v for another cluster, want its stream", err)
	}
	cancel()
	await.True(t, "a stream once the others ended", func() bool {
		again, leave := context.WithTimeout(t.Context(), await.Patience)
		defer leave()
		return h.open(t, again, one.token) == nil
	})
}
