// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/ed25519"
	"sync"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor"
)

// TestSecStrangersTakeNoPlaceAtTheEnrolmentGate has strangers guess join tokens at a replica that admits one enrolment a second.
func TestSecStrangersTakeNoPlaceAtTheEnrolmentGate(t *testing.T) {
	t.Parallel()
	h := startHub(t, func(c *distributor.Config) { c.AgentRate = 1 })
	h.apply(t, clusterDocument("one"))
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var guessing sync.WaitGroup
	for range 100 {
		guessing.Go(func() {
			_, err := h.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: "leatjoin_guessed", PublicKey: public})
			wantReason(t, err, "JOIN_TOKEN_INVALID")
		})
	}
	guessing.Wait()
	join, err := h.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: public}); err != nil {
		t.Errorf("got %v, want the honest agent to enrol after a hundred guesses", err)
	}
}

// TestSecOneAgentTakesNoOthersRenewals has an agent renew its token without end at a replica that others use as well.
func TestSecOneAgentTakesNoOthersRenewals(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("hostile"), clusterDocument("honest"))
	hostile, honest := h.enrol(t, "hostile"), h.enrol(t, "honest")
	var refused error
	accepted := 0
	for range 200 {
		assertion, err := identity.SignAssertion(hostile.key, hostile.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion}); err != nil {
			refused = err
		} else {
			accepted++
		}
	}
	wantReason(t, refused, "RATE_LIMITED")
	if wait, ok := rpcerr.RetryDelay(refused); !ok || wait <= 0 || accepted > 150 {
		t.Errorf("%d of 200 were accepted, the rest told to wait %s; want some tens, and the rest told when to come again", accepted, wait)
	}
	h.refresh(t, honest)
}

// TestSecJoinTokenOfAnotherReplica enrols at a replica that did not make the token, right after it had to read the tokens.
func TestSecJoinTokenOfAnotherReplica(t *testing.T) {
	t.Parallel()
	git := startFakeGit(t)
	first := startReplica(t, git)
	second := startReplica(t, git, func(c *distributor.Config) { c.DatabaseURL = first.cfg.DatabaseURL })
	first.apply(t, clusterDocument("one"))
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	enrol := func(token string) error {
		_, err := second.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: token, PublicKey: public})
		return err
	}
	wantReason(t, enrol("leatjoin_guessed"), "JOIN_TOKEN_INVALID")
	join, err := first.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is an agent that did not get the first answer
		if err := enrol(join.GetJoinToken()); err != nil {
			t.Errorf("got %v, want the token of another replica to be known", err)
		}
	}
}
