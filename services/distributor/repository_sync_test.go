// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"testing"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

func TestSyncRepository(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	fleet := h.fleet(t, adminToken)
	request := &fleetv1.SyncRepositoryRequest{Name: "demo"}
	res, err := fleet.SyncRepository(t.Context(), request)
	if err != nil || res.GetProblem() != nil {
		t.Errorf("got %v, %v, want no problem", res, err)
	}
	if got := h.git.count(&h.git.refreshes); got != 1 {
		t.Errorf("got %d fetches, want 1", got)
	}
	h.git.mu.Lock()
	h.git.upstream = &typev1.Problem{Reason: errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE, Message: "no answer"}
	h.git.mu.Unlock()
	res, err = fleet.SyncRepository(t.Context(), request)
	if err != nil || res.GetProblem().GetReason() != errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE || res.GetProblem().GetMessage() != "no answer" {
		t.Errorf("got %v, %v, want the upstream's problem", res, err)
	}
	_, err = fleet.SyncRepository(t.Context(), &fleetv1.SyncRepositoryRequest{Name: "none"})
	wantReason(t, err, "NOT_FOUND")
}

// TestSyncRepositoryIsBounded has a person request fetches until the hub refuses one. gitcache is not called for that
// one, and another person is still served.
func TestSyncRepositoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newCrowd(t)
	h.demo(t, newFolder(t, "c1", "one"))
	ada, _ := h.join(t, "ada", "leat:admins")
	const most = 10_000
	for n := range most {
		_, err := h.admin.SyncRepository(t.Context(), &fleetv1.SyncRepositoryRequest{Name: "demo"})
		if err == nil {
			continue
		}
		wantReason(t, err, "RATE_LIMITED")
		if _, ok := rpcerr.RetryDelay(err); !ok || connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("got %v, want a refusal that says when to try again", err)
		}
		if got := h.git.count(&h.git.refreshes); got != n {
			t.Errorf("got %d fetches, want %d", got, n)
		}
		if _, err := h.fleet(t, ada).SyncRepository(t.Context(), &fleetv1.SyncRepositoryRequest{Name: "demo"}); err != nil {
			t.Errorf("another person: got %v, want a fetch", err)
		}
		return
	}
	t.Errorf("got no refusal in %d calls", most)
}
