// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
)

// Only this file contains how the parts of a hub trust one another.

const (
	adminToken    = "leat_0123456789abcdef0123456789abcdef0123456789abcdef"
	redisPassword = "a-password-of-this-test"
)

// trusted returns the settings with which the other services of the hub trust a service.
func trusted(service string) []string {
	return []string{"LEAT_SERVICE_SECRET=" + hubkeys.Secret(service), "LEAT_SERVICE_KEYS=" + strings.Join(hubkeys.List(), ",")}
}

// services returns the names of the hub's services.
func services() []string { return []string{"distributor", "gitcache", "tunnel"} }

// secretOf returns the secret of a service.
func secretOf(service string) string { return hubkeys.Secret(service) }

// forged returns the tokens for calling another service that the holder of one service's secret can
// make.
func forged(t *testing.T, of, to string) []string {
	t.Helper()
	tokens := []string{serviceToken(t, of, to)}
	for _, service := range services() { // also under other names, with the leaked secret
		key, err := identity.NewServiceKey([]byte(secretOf(of)), service)
		if err != nil {
			t.Fatal(err)
		}
		token, err := key.For(to).Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// serviceToken returns the token with which one service calls another.
func serviceToken(t *testing.T, of, to string) string {
	t.Helper()
	token, err := hubkeys.Tokens(of, to).Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// audiences returns the services for which access tokens exist.
func audiences() []string { return []string{identity.ServiceDistributor, identity.ServiceTunnel} }

// personToken exchanges an API token for an access token that is valid at a service.
func (r *rig) personToken(t *testing.T, apiToken, audience string) string {
	t.Helper()
	if !slices.Contains(audiences(), audience) { // access tokens for gitcache do not exist
		audience = identity.ServiceDistributor
	}
	answer, err := r.fleet(t, apiToken).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{Audience: audience})
	if err != nil {
		t.Fatalf("create an access token: %v", err)
	}
	return answer.GetAccessToken()
}

// agentKey is the key of an enrolled agent.
type agentKey struct {
	cluster string
	private ed25519.PrivateKey
}

// agentToken exchanges an assertion of the key for an access token that is valid at a service.
func (r *rig) agentToken(t *testing.T, key agentKey, audience string) string {
	t.Helper()
	assertion, err := identity.SignAssertion(key.private, key.cluster)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		t.Fatalf("obtain an agent's token: %v", err)
	}
	if audience == identity.ServiceTunnel {
		return answer.GetTunnelToken()
	}
	return answer.GetAccessToken()
}

// joinToken creates a cluster, and a join token for its agent.
func (r *rig) joinToken(t *testing.T, cluster string) string {
	t.Helper()
	if _, err := r.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{{
		Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: cluster}}},
	}}}); err != nil {
		t.Fatalf("create cluster %s: %v", cluster, err)
	}
	joined, err := r.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		t.Fatalf("create a join token: %v", err)
	}
	return joined.GetJoinToken()
}

// bootstrapToken creates a token with which agents enrol clusters that do not exist yet.
func (r *rig) bootstrapToken(t *testing.T) string {
	t.Helper()
	c := r.client(t, adminToken)
	made, err := fleetv1connect.NewBootstrapServiceClient(c.HTTP, c.BaseURL, c.Options...).
		CreateBootstrapToken(t.Context(), &fleetv1.CreateBootstrapTokenRequest{NamePrefix: "edge-"})
	if err != nil {
		t.Fatalf("create a bootstrap token: %v", err)
	}
	return made.GetSecret()
}

// enrol creates a cluster and enrols an agent for it.
func (r *rig) enrol(t *testing.T, cluster string) agentKey {
	t.Helper()
	join := r.joinToken(t, cluster)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join, PublicKey: public}); err != nil {
		t.Fatalf("enrol: %v", err)
	}
	return agentKey{cluster: cluster, private: private}
}

func (r *rig) fleet(t *testing.T, token string) fleetv1connect.FleetServiceClient {
	t.Helper()
	c := r.client(t, token)
	return fleetv1connect.NewFleetServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func (r *rig) agents(t *testing.T, token string) distributorv1connect.DistributorServiceClient {
	t.Helper()
	c := r.client(t, token)
	return distributorv1connect.NewDistributorServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// client returns a client of the distributor. If token is empty, it sends none.
func (r *rig) client(t *testing.T, token string) rpc.Client {
	t.Helper()
	params := rpc.ClientParams{BaseURL: "http://" + r.distributor.public, Telemetry: telemetry.Noop(), IsOutside: true}
	if token != "" {
		params.Tokens = identity.StaticToken(token)
	}
	client, err := rpc.NewClient(params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return client
}
