// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package edge makes the cluster as which benchmarks call a distributor.
package edge

import (
	"crypto/ed25519"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// AdminToken is the token that the distributor under test has to be started with.
const AdminToken = "leat_0123456789abcdef0123456789abcdef0123456789abcdef"

// Connect returns a client that sends the token with each call.
func Connect(tb testing.TB, url, token string) rpc.Client {
	tb.Helper()
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: url, Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop()})
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// Enrol puts a cluster with a service for each folder of one repository into the catalog, and
// returns an access token of the cluster's agent.
func Enrol(tb testing.TB, url string, folders []string) string {
	tb.Helper()
	admin := Connect(tb, url, AdminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	if _, err := fleet.Apply(tb.Context(), &fleetv1.ApplyRequest{Documents: documents(folders)}); err != nil {
		tb.Fatal(err)
	}
	joined, err := fleet.CreateJoinToken(tb.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "edge"})
	if err != nil {
		tb.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	agent := distributorv1connect.NewDistributorServiceClient(admin.HTTP, admin.BaseURL)
	if _, err := agent.Enroll(tb.Context(), &distributorv1.EnrollRequest{JoinToken: joined.GetJoinToken(), PublicKey: public}); err != nil {
		tb.Fatal(err)
	}
	assertion, err := identity.SignAssertion(private, "edge")
	if err != nil {
		tb.Fatal(err)
	}
	token, err := agent.RefreshToken(tb.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		tb.Fatal(err)
	}
	return token.GetAccessToken()
}

func documents(folders []string) []*fleetv1.Document {
	all := []*fleetv1.Document{
		{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "edge"}}}},
		{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
			Metadata: &typev1.Metadata{Name: "apps"}, Spec: &fleetv1.RepositorySpec{Url: "https://git.example/apps.git"},
		}}},
	}
	for _, folder := range folders {
		all = append(all, &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
			Metadata: &typev1.Metadata{Name: folder},
			Spec:     &fleetv1.ServiceSpec{Cluster: "edge", Sources: []*typev1.Source{{Repository: "apps", Path: folder}}},
		}}})
	}
	return all
}
