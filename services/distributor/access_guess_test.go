// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// TestGuessedServicesAreRefusedAlike has a valid agent guess the names of services: services of
// another cluster are refused in the same words as unknown ones.
func TestGuessedServicesAreRefusedAlike(t *testing.T) {
	t.Parallel()
	const guessers, guesses = 8, 1250
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, clusterDocument("two"))
	client := h.agents(t, h.enrol(t, "two").token)
	var guessing sync.WaitGroup
	for range guessers {
		guessing.Go(func() {
			for i := range guesses {
				name := strings.ToLower(rand.Text())
				if i%10 == 0 {
					name = "app"
				}
				_, err := client.GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: name})
				if got, want := rpcerr.Message(err), fmt.Sprintf("service %q does not exist", name); got != want {
					t.Errorf("got %q, want %q", got, want)
					return
				}
			}
		})
	}
	guessing.Wait()
}

// TestAssertionsTellNothing has a caller without a key ask for tokens of clusters that are there,
// that have no agent, and that do not exist.
func TestAssertionsTellNothing(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("enrolled"), clusterDocument("silent"))
	h.enrol(t, "enrolled")
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	refusals := map[string]bool{}
	for _, cluster := range []string{"enrolled", "silent", "none"} {
		assertion, err := identity.SignAssertion(key, cluster)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
		wantReason(t, err, "CLUSTER_KEY_REJECTED")
		refusals[fmt.Sprint(err, rpcerr.Metadata(err))] = true
	}
	if len(refusals) != 1 {
		t.Errorf("got refusals %v, want the same for all", refusals)
	}
}
