// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// TestACrowdedHub has a hub that refuses streams, and names the time to retry.
func TestACrowdedHub(t *testing.T) {
	h := &planHub{}
	h.watch = func(context.Context, int, string, func(*distributorv1.WatchPlanResponse) error) error {
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, "wait", rpcerr.RetryAfter(40*time.Second))
	}
	withPlans(t, h, func(t *testing.T, versions func() []string) {
		pass(10 * time.Minute)
		if len(h.watches) < 10 {
			t.Errorf("got %d streams in ten minutes, want the agent to come again", len(h.watches))
		}
		for i := range len(h.watches) - 1 {
			if between := h.watches[i+1].Sub(h.watches[i]); between < 40*time.Second || between > 51*time.Second {
				t.Errorf("stream %d: got it after %v, want 40 s and up to a quarter", i+1, between)
			}
		}
		if len(versions()) != len(h.watches) {
			t.Errorf("got %d plans, want one polled for each stream that was refused, %d", len(versions()), len(h.watches))
		}
	})
}
