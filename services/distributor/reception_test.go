// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/ed25519"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// TestClustersThatAreDialled are told to the tunnel, which gets tokens for their agents only.
func TestClustersThatAreDialled(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	client := h.client(t, serviceToken(t))
	tunnel := distributorv1connect.NewReceptionServiceClient(client.HTTP, client.BaseURL, client.Options...)
	list := func(known string) *distributorv1.ListReceptiveClustersResponse {
		t.Helper()
		res, err := tunnel.ListReceptiveClusters(t.Context(), &distributorv1.ListReceptiveClustersRequest{KnownVersion: known})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	vouch := func(cluster string, key []byte) (string, error) {
		res, err := tunnel.CreateHubToken(t.Context(), &distributorv1.CreateHubTokenRequest{Cluster: cluster, AgentKey: key})
		return res.GetToken(), err
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h.apply(t, clusterDocument("plain"))
	none := list("")
	if len(none.GetClusters()) != 0 || !list(none.GetVersion()).GetUnchanged() {
		t.Errorf("got %v, want an empty list that does not change", none)
	}
	dialled := clusterDocument("vault")
	dialled.GetCluster().GetSpec().AgentEndpoint = "vault.example.com:8443"
	h.apply(t, dialled)
	await.True(t, "the cluster in the list", func() bool { return !list(none.GetVersion()).GetUnchanged() })
	before := list(none.GetVersion())
	if got := before.GetClusters(); len(got) != 1 || got[0].GetCluster() != "vault" || got[0].GetAgentEndpoint() != "vault.example.com:8443" || len(got[0].GetAgentKey()) != 0 {
		t.Errorf("got %v, want the cluster without a key", got)
	}
	if token, err := vouch("vault", other); err != nil || token == "" {
		t.Errorf("before enrolment: got %v, want a token for whoever is there", err)
	}

	agent := h.enrol(t, "vault")
	own, _ := agent.key.Public().(ed25519.PublicKey)
	after := list(before.GetVersion()).GetClusters()
	if len(after) != 1 || !own.Equal(ed25519.PublicKey(after[0].GetAgentKey())) || after[0].GetIdentityUid() == before.GetClusters()[0].GetIdentityUid() {
		t.Fatalf("got %v after enrolment, want the agent's key and another identity", after)
	}
	_, err = vouch("vault", other)
	wantReason(t, err, "ACCESS_DENIED")
	token, err := vouch("vault", own)
	if err != nil {
		t.Fatal(err)
	}
	join, err := h.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "vault"})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := identity.ParseHubKeys(join.GetHubKeys())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := identity.VerifyHubToken(token, identity.HubTokenParams{Keys: keys, ClusterUID: after[0].GetClusterUid(), AgentKey: own}); err != nil {
		t.Errorf("the agent refuses the token with the keys that come with its join token: %v", err)
	}
	_, err = vouch("plain", own)
	wantReason(t, err, "NOT_FOUND")
	_, err = vouch("vault", own[:31])
	wantReason(t, err, "FIELD_INVALID")
}

// TestLocalEndpoints are refused, unless they are allowed.
func TestLocalEndpoints(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		fleet := startHub(t, func(cfg *distributor.Config) { cfg.AllowLocalAgents = allowed }).fleet(t, adminToken)
		for _, endpoint := range []string{"127.0.0.1:1", "localhost:1", "[::1]:1", "169.254.169.254:80", "[fe80::1]:1", "0.0.0.0:1"} {
			document := clusterDocument("vault")
			document.GetCluster().GetSpec().AgentEndpoint = endpoint
			_, err := fleet.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}, DryRun: true})
			wantReason(t, err, map[bool]string{false: "FIELD_INVALID", true: "UNSPECIFIED"}[allowed])
		}
	}
}
